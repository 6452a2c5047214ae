package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/tidemill/tidemill/systems/windows/process"
	"github.com/tidemill/tidemill/systems/windows/record"
)

func isSpam(url string) bool { return strings.Contains(url, "spam") }

func main() {
	// BLOCK
	fmt.Println(chain, err)
}
