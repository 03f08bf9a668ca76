// Package integration tests Pinfold against a real engine, from outside.
//
// Its tests look at what Pinfold does with tools that are not Pinfold's own:
// testcontainers-go builds images and starts neighbours, the engine's plain
// client looks at containers and takes them away, and the host's /proc says
// what still runs. When all tests are done, a sweep looks for whatever was
// left behind: containers, volumes, networks, images, processes and files.
//
// Without an engine the tests are skipped, unless PINFOLD_REQUIRE_DOCKER=1 is
// set: then they fail. Tests that need an engine of their own (to restart it,
// or to stop it in the middle) start a second dockerd, which takes root.
//
// docs/field-faults.md says which test proves which row of the faults that
// users of such systems report.
package integration
