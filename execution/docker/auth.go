package docker

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/pinfold-dev/pinfold/execution"
)

// helperLimit bounds a credential helper, which may ask its user.
const helperLimit = time.Minute

// registryAuth is the header that authenticates to a registry, with the
// credentials that the docker command would use: those of a credential helper
// named in its configuration, else those stored there. None is "".
func registryAuth(ctx context.Context, domain string) (string, error) {
	config := systemEnvironment().dockerConfig()
	if domain == "docker.io" {
		domain = "https://index.docker.io/v1/"
	}
	helper := config.CredHelpers[domain]
	if helper == "" {
		helper = config.CredsStore
	}
	creds := config.stored(domain)
	if helper != "" {
		var err error
		if creds, err = askHelper(ctx, helper, domain); err != nil {
			return "", err
		}
	}
	if creds == nil {
		return "", nil
	}
	data, err := json.Marshal(creds) //nolint:gosec // The engine gets the password, as it must.
	return base64.URLEncoding.EncodeToString(data), err
}

// credentials is the API's form of them.
type credentials struct {
	Username      string `json:"username,omitempty"`
	Password      string `json:"password,omitempty"`
	IdentityToken string `json:"identitytoken,omitempty"`
	ServerAddress string `json:"serveraddress,omitempty"`
}

// stored are the credentials that stand in the configuration itself.
func (c dockerConfig) stored(domain string) *credentials {
	entry, ok := c.Auths[domain]
	if !ok {
		entry, ok = c.Auths["https://"+domain]
	}
	if !ok {
		return nil
	}
	creds := &credentials{IdentityToken: entry.IdentityToken, ServerAddress: domain}
	if raw, err := base64.StdEncoding.DecodeString(entry.Auth); err == nil {
		creds.Username, creds.Password, _ = strings.Cut(strings.TrimRight(string(raw), "\x00"), ":")
	}
	if creds.Username == "" && creds.IdentityToken == "" {
		return nil
	}
	return creds
}

// askHelper runs a credential helper by docker's protocol for them. One that
// knows nothing of the registry is no error.
func askHelper(ctx context.Context, helper, domain string) (*credentials, error) {
	if strings.ContainsAny(helper, `/\`) {
		return nil, fmt.Errorf("%w: credential helper %q in the docker configuration", execution.ErrInvalid, helper)
	}
	ctx, cancel := context.WithTimeout(ctx, helperLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker-credential-"+helper, "get")
	cmd.Stdin = strings.NewReader(domain)
	var stdout bytes.Buffer
	cmd.Stdout = &stdout
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("credential helper %q: %w", helper, context.Cause(ctx))
		}
		return nil, nil //nolint:nilnil,nilerr // Not known there, which helpers tell by failing: go on without, as docker does.
	}
	var answer struct{ Username, Secret string }
	if err := json.Unmarshal(stdout.Bytes(), &answer); err != nil || answer.Secret == "" {
		return nil, nil //nolint:nilnil,nilerr // As above.
	}
	if answer.Username == "<token>" {
		return &credentials{IdentityToken: answer.Secret, ServerAddress: domain}, nil
	}
	return &credentials{Username: answer.Username, Password: answer.Secret, ServerAddress: domain}, nil
}
