// The runtime of the node: the real runc, which lies beside it as "runc.real", on a bundle without a seccomp profile.
// A kubelet asks for such a profile for each sandbox, and a runc that was built without libseccomp refuses it.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

func main() {
	for i, word := range os.Args[:len(os.Args)-1] {
		if word == "--bundle" {
			must(strip(filepath.Join(os.Args[i+1], "config.json")))
		}
	}
	self, err := os.Executable()
	must(err)
	must(syscall.Exec(filepath.Join(filepath.Dir(self), "runc.real"), os.Args, os.Environ()))
}

func strip(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config map[string]json.RawMessage
	if err := json.Unmarshal(text, &config); err != nil {
		return err
	}
	var linux map[string]json.RawMessage
	if err := json.Unmarshal(config["linux"], &linux); err != nil {
		return err
	}
	delete(linux, "seccomp")
	if config["linux"], err = json.Marshal(linux); err != nil {
		return err
	}
	if text, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o600)
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "runc without seccomp:", err)
		os.Exit(1)
	}
}
