# shellcheck shell=sh
#
# Runs once as root inside the image while it is made, by a busybox that may
# be the only file there is.
set -eu
bb=/bin/busybox

# A base image that is busybox already has these links.
for applet in $($bb --list); do
  [ -e "/bin/$applet" ] || $bb ln -s busybox "/bin/$applet"
done
$bb rm -f /bin/setup.sh

$bb mkdir -p /etc /root /home/agent /tmp /var/tmp /workspace
$bb chmod 1777 /tmp /var/tmp
$bb chmod 0700 /root
$bb chown 1000:1000 /home/agent /workspace

$bb cat >/etc/passwd <<'END'
root:x:0:0:root:/root:/bin/sh
agent:x:1000:1000::/home/agent:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
END
$bb cat >/etc/group <<'END'
root:x:0:
agent:x:1000:
nogroup:x:65534:
END
