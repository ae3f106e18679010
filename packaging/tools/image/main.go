// Command image makes a container's image of one static program, without a container's daemon:
//
//	image PROGRAM ARCH VERSION FILE
//
// FILE is a tar of an OCI layout, which podman and skopeo read (oci-archive:), and Docker as well,
// by the manifest.json beside it. The same program gives the same bytes everywhere.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH")); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string, epoch string) error {
	if len(args) != 4 {
		return fmt.Errorf("got %d arguments: say PROGRAM ARCH VERSION FILE", len(args))
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH is %q: set it to the seconds since 1970 that the files are to have", epoch)
	}
	made := time.Unix(seconds, 0).UTC()
	program, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	files, err := root(program, made)
	if err != nil {
		return err
	}
	image, err := describe(files, args[1], args[2], made)
	if err != nil {
		return err
	}
	return write(image, "dibs:"+args[2], args[3], made)
}
