package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/serve/api"
	"github.com/tidemill/tidemill/serve/api/operation"
)

type userCmd struct {
	List     userListCmd     `cmd:"" help:"List the users."`
	Add      userAddCmd      `cmd:"" help:"Add a user, with a password that is asked for."`
	Role     userRoleCmd     `cmd:"" help:"Give a user another role: viewer, operator or admin. Their sessions end."`
	Password userPasswordCmd `cmd:"" help:"Give a user another password, which is asked for. Their sessions end."`
	Remove   userRemoveCmd   `cmd:"" help:"Remove a user. Their sessions end."`
}

type userListCmd struct{ command.Remote }

func (c *userListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "NAME\tROLE\tADDED\tBY", None: "No users: `tidemill user add NAME --role admin` adds one."}
	return command.List(ctx, e, c, api.ListUsers, &operation.Short{}, &t, func(u *api.User) []string {
		return []string{u.Name, u.Role.String(), command.Stamp(&u.Made), u.By}
	})
}

type userAddCmd struct {
	command.Remote
	Name string `arg:"" help:"The name that they log in with."`
	Role string `help:"viewer, operator or admin; of single systems as 'viewer operator:crm'." default:"viewer" placeholder:"ROLE"`
}

// Help is shown by tidemill user add --help.
func (c *userAddCmd) Help() string {
	return `A viewer sees figures and lists. An operator sees payloads too, and moves what waits or failed. An admin may do everything. A role for a system alone is written as operator:crm, and several have spaces between; an admin is one of all systems. The password is asked for at the terminal; else it is the first line of standard input:

  tidemill user add ada --role admin
  tidemill user add bob --role 'viewer operator:crm operator:delivery'
  tidemill user add ci-person < password-file`
}

func (c *userAddCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		password, err := newPassword(e)
		if err != nil {
			return err
		}
		q := api.NewUser{Body: api.UserToAdd{Name: c.Name, Role: c.Role, Password: password}}
		_, err = command.Shown(ctx, e, c, a, api.AddUser, &q, func(u *api.User) error { return sayUser(e, "Added", u) })
		return err
	})
}

func sayUser(e command.Env, did string, u *api.User) error {
	_, err := fmt.Fprintf(e.Out, "%s %s, with the role %s.\n", did, command.Printable(u.Name), u.Role)
	return err
}

type userRoleCmd struct {
	command.Remote
	api.UserRole
}

func (c *userRoleCmd) Run(ctx context.Context, e command.Env) error {
	c.Seen = c.OrWhatever()
	return command.Show(ctx, e, c, api.SetUserRole, &c.UserRole, func(_ *command.Client, u *api.User) error { return sayUser(e, "Changed", u) })
}

type userPasswordCmd struct {
	command.Remote
	api.OneUser
}

func (c *userPasswordCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		password, err := newPassword(e)
		if err != nil {
			return err
		}
		q := api.UserPassword{OneUser: c.OneUser, Body: api.NewPassword{Password: password}}
		_, err = command.Shown(ctx, e, c, a, api.SetUserPassword, &q, func(u *api.User) error { return sayUser(e, "Changed the password of", u) })
		return err
	})
}

type userRemoveCmd struct {
	command.Remote
	api.OneUser
}

func (c *userRemoveCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.RemoveUser, &c.OneUser, func(_ *command.Client, u *api.User) error { return sayUser(e, "Removed", u) })
}

// newPassword asks for a password at the terminal, twice, or reads it from standard input.
func newPassword(e command.Env) (string, error) {
	f, ok := e.In.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		line, err := bufio.NewReader(io.LimitReader(e.In, 4<<10)).ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line == "" {
			return "", errors.Join(errors.New("there is no password on standard input"), notEnd(err))
		}
		return line, nil
	}
	ask := func(what string) (string, error) {
		_, _ = fmt.Fprint(e.Err, what)
		b, err := term.ReadPassword(int(f.Fd()))
		_, _ = fmt.Fprintln(e.Err)
		return string(b), err
	}
	first, err := ask("New password: ")
	if err != nil {
		return "", err
	}
	again, err := ask("Again: ")
	if err == nil && first != again {
		err = errors.New("the two are not the same")
	}
	return first, err
}

func notEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

type tokenMakeCmd struct {
	command.Remote
	api.NewToken
}

func (c *tokenMakeCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.MakeToken, &c.NewToken, func(_ *command.Client, t *api.MadeToken) error {
		_, _ = fmt.Fprintf(e.Err, "The token %s has the role %s and ends %s. Nobody can see it later:\n", command.Printable(strings.TrimPrefix(t.Name, "token:")), t.Role, ends(t.Until))
		_, err := fmt.Fprintln(e.Out, t.Secret)
		return err
	})
}

// ends is when a token ends, in a sentence.
func ends(until *time.Time) string {
	if until == nil {
		return "never"
	}
	return "on " + until.Format(time.DateOnly)
}

type tokenListCmd struct{ command.Remote }

func (c *tokenListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "ID\tNAME\tROLE\tMADE\tBY\tUSED\tENDS", None: "No tokens: `tidemill token make NAME` makes one."}
	return command.List(ctx, e, c, api.ListTokens, &operation.Short{}, &t, func(t *api.Token) []string {
		end := command.Stamp(t.Until)
		if t.Until == nil {
			end = "never"
		}
		return []string{t.ID, strings.TrimPrefix(t.Name, "token:"), t.Role.String(), command.Stamp(&t.Made), t.By, command.Stamp(t.Used), end}
	})
}

type tokenRevokeCmd struct {
	command.Remote
	api.OneToken
}

func (c *tokenRevokeCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.RevokeToken, &c.OneToken, func(_ *command.Client, t *api.Token) error {
		_, err := fmt.Fprintf(e.Out, "Revoked %s.\n", command.Printable(strings.TrimPrefix(t.Name, "token:")))
		return err
	})
}

type sessionsCmd struct {
	List sessionsListCmd `cmd:"" default:"withargs" help:"List the sessions of everybody, or of one name."`
	End  sessionsEndCmd  `cmd:"" help:"End a session."`
}

type sessionsListCmd struct {
	command.Remote
	api.SessionFilter
}

func (c *sessionsListCmd) Run(ctx context.Context, e command.Env) error {
	t := command.Table{Head: "ID\tNAME\tROLE\tVIA\tFROM\tSINCE\tUSED\tBROWSER", None: "Nobody is logged in."}
	return command.List(ctx, e, c, api.ListSessions, &c.SessionFilter, &t, func(s *api.Session) []string {
		return []string{s.ID, s.Name, s.Role.String(), s.Via, s.From, command.Stamp(&s.Entered), command.Stamp(&s.Used), s.Browser}
	})
}

type sessionsEndCmd struct {
	command.Remote
	api.OneSession
}

func (c *sessionsEndCmd) Run(ctx context.Context, e command.Env) error {
	return command.Show(ctx, e, c, api.EndSession, &c.OneSession, func(_ *command.Client, s *api.Session) error {
		_, err := fmt.Fprintf(e.Out, "Ended a session of %s.\n", command.Printable(s.Name))
		return err
	})
}

type consoleCmd struct {
	Link consoleLinkCmd `cmd:"" help:"Print a link that lets into the console once, from this machine, within 10 minutes."`
}

type consoleLinkCmd struct{ command.Remote }

func (c *consoleLinkCmd) Run(ctx context.Context, e command.Env) error {
	return c.Ask(ctx, e, func(a *command.Client) error {
		if !a.Live {
			return errors.New("no instance runs whose console could be opened: start one with `tidemill run`")
		}
		_, err := command.Shown(ctx, e, c, a, api.MakeLink, &operation.None{}, func(l *api.MadeLink) error {
			_, err := fmt.Fprintln(e.Out, strings.TrimSuffix(a.Base, "/")+l.Path)
			return err
		})
		return err
	})
}
