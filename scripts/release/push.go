package main

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// push publishes the image of a release under some names, with the credentials that docker login or
// its like have left.
func push(ctx context.Context, file string, names []string) error {
	index, end, err := opened(file)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	defer end()
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	for _, n := range names {
		tag, err := name.NewTag(n, name.StrictValidation)
		if err != nil {
			return err
		}
		if err := remote.WriteIndex(tag, index, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)); err != nil {
			return fmt.Errorf("push %s: %w", tag, err)
		}
		fmt.Printf("%s@%s\n", tag, digest)
	}
	return nil
}

// opened opens the image in a file that image wrote.
func opened(file string) (index v1.ImageIndex, end func(), err error) {
	dir, err := os.MkdirTemp("", "release-image-")
	if err != nil {
		return nil, nil, err
	}
	end = func() { _ = os.RemoveAll(dir) } // a temporary folder
	if index, err = unpacked(file, dir); err != nil {
		end()
	}
	return index, end, err
}

func unpacked(file, dir string) (v1.ImageIndex, error) {
	if err := untar(file, dir); err != nil {
		return nil, err
	}
	top, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	all, err := top.IndexManifest()
	if err != nil {
		return nil, err
	}
	if len(all.Manifests) != 1 {
		return nil, fmt.Errorf("it has %d images, want one of several architectures", len(all.Manifests))
	}
	return top.ImageIndex(all.Manifests[0].Digest)
}

func untar(file, dir string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for in := tar.NewReader(f); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := root.MkdirAll(filepath.Dir(h.Name), 0o755); err != nil {
			return err
		}
		to, err := root.Create(h.Name)
		if err != nil {
			return err
		}
		_, err = io.Copy(to, in)
		if err := errors.Join(err, to.Close()); err != nil {
			return err
		}
	}
}
