# shellcheck shell=sh
#
# Runs once as root inside the image while it is made.
set -eu

groupadd --gid 1000 agent
useradd --uid 1000 --gid 1000 --create-home --shell /bin/bash agent
install -d -o 1000 -g 1000 -m 0755 /workspace

# What is mounted at /workspace often belongs to somebody else. Git's check of
# that protects a user from another user's hooks; here both are the sandbox.
git config --system --add safe.directory '*'
