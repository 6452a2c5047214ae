// Command typecheck says whether packages and their tests are right for another system:
//
//	go run ./internal/typecheck -os windows PACKAGES…
//
// It checks types, of what packages import too, and compiles nothing: that takes seconds, where go vet
// takes minutes, as it has to compile all that is imported for that system.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"golang.org/x/tools/go/packages"
)

func main() {
	system := flag.String("os", "windows", "the `system`, as GOOS has it")
	flag.Parse()
	if err := check("", *system, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "typecheck:", err)
		os.Exit(1)
	}
}

// check checks packages of the module that is in a folder ("": the current one).
func check(dir, system string, names []string) error {
	all, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedDeps |
			packages.NeedTypes | packages.NeedSyntax | packages.NeedTypesInfo, // from source: there is nothing compiled
		Tests: true, Dir: dir, Env: append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0"),
	}, names...)
	if err != nil {
		return fmt.Errorf("load the packages: %w", err)
	}
	if len(all) == 0 {
		return fmt.Errorf("%q name no package", names)
	}
	var wrong []error
	seen := map[string]bool{} // a file is in a package and in that of its tests
	packages.Visit(all, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			if !seen[e.Error()] {
				seen[e.Error()] = true
				wrong = append(wrong, e)
			}
		}
	})
	if len(wrong) > 0 {
		return fmt.Errorf("not right for %s:\n%w", system, errors.Join(wrong...))
	}
	return nil
}
