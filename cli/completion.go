package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/spf13/cobra"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/connect/system"
)

// completionCmd prints the script with which a shell completes this program's words.
type completionCmd struct {
	Shell string `arg:"" enum:"bash,zsh,fish,powershell" help:"The shell: bash, zsh, fish or powershell."`
}

func (completionCmd) Help() string {
	return `Bash, in ~/.bashrc:    source <(tidemill completion bash), with the package bash-completion
Zsh, in ~/.zshrc:      source <(tidemill completion zsh)
Fish, once:            tidemill completion fish > ~/.config/fish/completions/tidemill.fish
PowerShell, in $PROFILE:
                       tidemill completion powershell | Out-String | Invoke-Expression`
}

func (c completionCmd) Run(e command.Env, k *kong.Kong) error {
	root := asCobra(k.Model, e.Table.Names())
	switch c.Shell {
	case "bash":
		return root.GenBashCompletionV2(e.Out, true)
	case "zsh":
		return root.GenZshCompletion(e.Out)
	case "fish":
		return root.GenFishCompletion(e.Out, true)
	}
	return root.GenPowerShellCompletionWithDesc(e.Out)
}

// complete answers a shell that asks, by the script above, which words fit. It says whether
// one did.
func complete(ctx context.Context, app *kong.Application, args []string, e command.Env) (bool, error) {
	if len(args) == 0 || args[0] != cobra.ShellCompRequestCmd && args[0] != cobra.ShellCompNoDescRequestCmd {
		return false, nil
	}
	root := asCobra(app, e.Table.Names())
	root.SetArgs(args)
	root.SetOut(e.Out)
	root.SetErr(e.Err)
	return true, root.ExecuteContext(ctx)
}

// Commands are the commands of a program with these systems, for what writes manual pages and
// completions of them. They do nothing: Main runs them.
func Commands(table system.Table) (*cobra.Command, error) {
	k, err := new(commands).parser(table, "")
	if err != nil {
		return nil, err
	}
	return asCobra(k.Model, table.Names()), nil
}

// asCobra has the commands in the form of the library that knows the shells.
func asCobra(app *kong.Application, systems []string) *cobra.Command {
	root := node(app.Node, systems)
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetHelpCommand(&cobra.Command{Hidden: true})
	return root
}

func node(n *kong.Node, systems []string) *cobra.Command {
	short, _, _ := strings.Cut(n.Help, "\n\n")
	c := &cobra.Command{Use: n.Name, Short: short, Long: strings.TrimSpace(n.Help + "\n\n" + n.Detail), Aliases: n.Aliases, Hidden: n.Hidden, Run: func(*cobra.Command, []string) {}}
	for _, p := range n.Positional {
		c.Use += " " + p.Summary()
	}
	c.InitDefaultHelpFlag()
	for _, f := range n.Flags {
		if !f.Hidden && f.Name != "help" {
			addFlag(c, f, systems)
		}
	}
	for _, child := range n.Children {
		c.AddCommand(node(child, systems))
	}
	if n.Name == "help" {
		c.ValidArgsFunction = func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return beginning(begun, below(c.Root(), args)), cobra.ShellCompDirectiveNoFileComp
		}
	} else if len(n.Children) == 0 {
		c.ValidArgsFunction = func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return values(systems, argument(n.Positional, len(args)), begun)
		}
	}
	return c
}

func addFlag(c *cobra.Command, f *kong.Flag, systems []string) {
	short := ""
	if f.Short != 0 {
		short = string(f.Short)
	}
	flags := c.PersistentFlags()
	if f.IsBool() {
		flags.BoolP(f.Name, short, false, f.Help)
		return
	}
	flags.StringP(f.Name, short, "", f.Help)
	_ = c.RegisterFlagCompletionFunc(f.Name, func(_ *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return values(systems, f.Value, begun)
	}) // fails for a flag that is not there, or twice
}

// argument is the one in a place; the last may be there more than once.
func argument(p []*kong.Positional, i int) *kong.Value {
	if i < len(p) {
		return p[i]
	}
	if n := len(p); n > 0 && p[n-1].IsCumulative() {
		return p[n-1]
	}
	return nil
}

// values are those that an argument or a flag can have: one of a few, a file, or anything.
func values(systems []string, v *kong.Value, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	switch {
	case v == nil:
		return nil, cobra.ShellCompDirectiveNoFileComp
	case v.Name == "system":
		return beginning(begun, slices.Clone(systems)), cobra.ShellCompDirectiveNoFileComp
	case v.Enum != "":
		return beginning(begun, strings.Split(v.Enum, ",")), cobra.ShellCompDirectiveNoFileComp
	case slices.Contains([]string{"path", "existingfile", "existingdir"}, v.Tag.Type):
		return nil, cobra.ShellCompDirectiveDefault
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

func beginning(begun string, words []string) []cobra.Completion {
	return slices.DeleteFunc(words, func(w string) bool { return w == "" || !strings.HasPrefix(w, begun) })
}

// below are the commands below the one that args name.
func below(c *cobra.Command, args []string) []cobra.Completion {
	for _, name := range args {
		i := slices.IndexFunc(c.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
		if i < 0 {
			return nil
		}
		c = c.Commands()[i]
	}
	var found []cobra.Completion
	for _, c := range c.Commands() {
		if c.IsAvailableCommand() {
			found = append(found, fmt.Sprintf("%s\t%s", c.Name(), c.Short))
		}
	}
	return found
}
