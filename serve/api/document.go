package api

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"io"
	"sync"
)

// packed is openapi.json, gzipped: the program would be larger by a third of a megabyte. The tests that write
// the one write the other.
//
//go:embed openapi.json.gz
var packed []byte

// Document describes the API in OpenAPI 3.1: the bytes of openapi.json.
var Document = sync.OnceValue(func() []byte {
	in, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		panic(fmt.Errorf("the description of the API in this program is damaged: %w", err))
	}
	text, err := io.ReadAll(in)
	if err != nil {
		panic(fmt.Errorf("the description of the API in this program is damaged: %w", err))
	}
	return text
})
