package main

import (
	"fmt"
	"os"
)

func Example() {
	if err := run(os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// shipped 2 × lamp
	// accepted 4 = delivered 1 + skipped 1 + dead 2 + in flight 0
	// dead: order 3, validation: count is -1; 1 or more is needed
	// dead: order 4, validation: no order: invalid character 'o' in literal null (expecting 'u')
}
