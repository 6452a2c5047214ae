package bridgecli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/tidemill/tidemill/cli/command"
	"github.com/tidemill/tidemill/systems/bridge/bridgeapi"
	"github.com/tidemill/tidemill/systems/bridge/bridgeconfig"
)

type bridgeCmd struct {
	Send   bridgeSendCmd   `cmd:"" help:"Put entries into the embedded bridge's stream."`
	Listen bridgeListenCmd `cmd:"" help:"Print the messages that the bridge publishes, as a receiver gets them."`
	Status bridgeStatusCmd `cmd:"" help:"Show how the bridge stands: stream, consumers, what was published and acknowledged."`

	TakeOver bridgeTakeOverCmd `cmd:"" help:"Take over what a consumer that is gone has pending."`
}

type bridgeSendCmd struct {
	command.Remote
	File string `arg:"" optional:"" help:"Entries, one a line: JSON or any other text. Default, or -: standard input." type:"path"`
}

// Help is shown by tidemill bridge send --help.
func (c *bridgeSendCmd) Help() string {
	return `Each line becomes one entry, its payload byte for byte. If the stream is in Redis, write to it with XADD:

  redis-cli XADD syslog-stream '*' payload '{"text": "disk full"}'`
}

func (c *bridgeSendCmd) Run(ctx context.Context, e command.Env) error {
	in := e.In
	if c.File != "" && c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	return c.Ask(ctx, e, func(a *command.Client) error {
		sent := 0
		defer func() {
			if !c.JSON {
				_, _ = fmt.Fprintf(e.Out, "%s accepted\n", command.Count(sent, "entry", "entries"))
			}
		}()
		lines := bufio.NewReaderSize(in, command.SendBatch)
		var batch bytes.Buffer
		flush := func() error {
			if batch.Len() == 0 {
				return nil
			}
			answer, err := bridgeapi.SendEntries.Call(ctx, &a.Client, &bridgeapi.SentEntries{Body: bytes.NewReader(batch.Bytes())})
			if err != nil {
				return err
			}
			sent += len(answer.IDs)
			batch.Reset()
			if c.JSON {
				return command.PrintJSON(e.Out, answer)
			}
			return nil
		}
		for {
			line, err := lines.ReadBytes('\n')
			batch.Write(line)
			if batch.Len() >= command.SendBatch/2 || err != nil {
				if err := flush(); err != nil {
					return err
				}
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
}

type bridgeListenCmd struct {
	command.Settings
	Server string   `help:"The running instance to ask for its broker and topics. Default: those of the configuration." env:"TIDEMILL_SERVER" placeholder:"URL"`
	Token  string   `help:"The API's token; safer in the environment, where others do not see it. Default: from the configuration, or from the data folder for an instance on this machine." env:"TIDEMILL_TOKEN" placeholder:"TOKEN"`
	Ack    bool     `help:"Acknowledge every message, as a receiver does: its entry leaves the stream."`
	Topic  []string `help:"Other topics to listen to; + and # are allowed." placeholder:"TOPIC"`
	Count  int      `help:"Stop after this many messages. Default: never." placeholder:"N"`
	Names  bool     `help:"Print the topic before each message."`

	listen Listen
}

// Help is shown by tidemill bridge listen --help.
func (c *bridgeListenCmd) Help() string {
	return `It connects to the broker of the configuration: MQTT_BROKERS, or the embedded broker of a bridge on this machine. With --server it asks a running instance for its broker and topics; user, password and certificates come from the local configuration.

  tidemill bridge listen --ack
  tidemill bridge listen --topic syslog/dlq`
}

func (c *bridgeListenCmd) Run(ctx context.Context, e command.Env) error {
	var flags map[string]string
	if c.Server != "" {
		its, err := c.Client(e, c.Server, c.Token)
		if err != nil {
			return err
		}
		if flags, err = theirs(ctx, its); err != nil {
			return err
		}
	}
	cfg, err := c.Load(e, flags)
	if err != nil {
		return err
	}
	if err := bridgeconfig.Of(cfg).Check(); err != nil {
		return command.WrongConfig{Err: err}
	}
	n := 0
	ready := func(topics []string) { // beside the messages, which may go to another program
		_, _ = fmt.Fprintf(e.Err, "listening to %s. Stop with Ctrl-C.\n", strings.Join(topics, ", "))
	}
	err = c.listen(ctx, cfg, Listening{Topics: c.Topic, Ack: c.Ack, Log: command.Logger(cfg.Log, e, true), Ready: ready}, func(topic string, payload []byte) error {
		line := string(payload)
		if c.Names {
			line = topic + " " + line
		}
		if command.Terminal(e.Out) {
			line = command.Printable(line)
		}
		if _, err := fmt.Fprintln(command.AsBytes(e.Out), line); err != nil {
			return err
		}
		if n++; n == c.Count {
			return ErrEnough
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
