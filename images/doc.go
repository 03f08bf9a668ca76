// Package images holds the sandbox images that come with Pinfold, and gets an
// image onto an engine whatever the circumstances.
//
// [Known] lists the images: "sandbox", a small Debian with the programs that
// agents use, and "minimal", a single busybox. Their Dockerfiles are embedded
// in the program. [Ensure] is what a backend calls before it makes a
// container: it finds the image on the engine, or pulls it, or builds it when
// it is one of ours, and otherwise returns one error that tells each thing it
// tried. [Build] makes one of ours on purpose, also on a machine that reaches
// no registry but does reach a Debian mirror.
package images
