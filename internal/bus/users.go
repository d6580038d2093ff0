package bus

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
)

// UsersDir is a folder in the data folder of a node, with a file for each user of the embedded server. The file is
// named after the user and contains the user's secret.
const UsersDir = "nats-users"

// Users of an embedded server for clients.
const (
	UserAdmin     = "admin"     // has all permissions
	UserEvents    = "events"    // publishes events
	UserAlerts    = "alerts"    // reads alerts as they are published
	UserConsumers = "consumers" // reads the stream of alerts, too
	UserAcks      = "acks"      // acknowledges alerts
	UserHandlers  = "handlers"  // answers checks
)

// userNode is the node itself. Its secret is not in a file, because each server generates one.
const userNode = "node"

// answerWithin bounds the time of a handler's answer.
const answerWithin = time.Hour

// brokersOwn are the subjects of the broker and of replies. A client publishing there would act as the broker, or in
// the name of other clients.
var brokersOwn = []string{
	"$JS.>", "$KV.>", "$O.>", "$SRV.>", "$SYS.>", "$NRG.>", "$MQTT.>", "$GR.>", "_GR_.>", "_R_.>", "_INBOX.>",
}

// permissionsOf returns the permissions of a user, or nil for all. Each user but the admin receives replies only
// below its own inbox, so that it can't read replies to other users.
//
// Only the consumers may send requests to JetStream, because it answers on any subject named in the request. A status
// would arrive there as an event without a body.
func permissionsOf(name string) *natsserver.Permissions {
	own := "_INBOX." + name + ".>"
	may := func(publish, subscribe []string, deny ...string) *natsserver.Permissions {
		return &natsserver.Permissions{
			Publish:   &natsserver.SubjectPermission{Allow: publish, Deny: deny},
			Subscribe: &natsserver.SubjectPermission{Allow: append(subscribe, own)},
		}
	}
	switch name {
	case UserEvents:
		return may([]string{">"}, nil, append([]string{"deadman.>"}, brokersOwn...)...)
	case UserAlerts:
		return may([]string{}, []string{alertSubjects})
	case UserConsumers:
		return may([]string{
			"$JS.API.STREAM.INFO." + AlertsStream,
			"$JS.API.CONSUMER.CREATE." + AlertsStream, "$JS.API.CONSUMER.CREATE." + AlertsStream + ".>",
			"$JS.API.CONSUMER.DURABLE.CREATE." + AlertsStream + ".*",
			"$JS.API.CONSUMER.INFO." + AlertsStream + ".*",
			"$JS.API.CONSUMER.MSG.NEXT." + AlertsStream + ".*",
			"$JS.ACK." + AlertsStream + ".>", "$JS.FC." + AlertsStream + ".>",
		}, []string{alertSubjects})
	case UserAcks:
		return may([]string{"deadman.acks.*"}, nil)
	case UserHandlers:
		p := may([]string{}, []string{"deadman.handlers.>", "$SRV.>"})
		p.Response = &natsserver.ResponsePermission{MaxMsgs: 1, Expires: answerWithin}
		return p
	}
	return nil
}

var _ natsserver.Authentication = (*users)(nil)

// users authenticates and authorizes the clients of an embedded server.
type users struct {
	secrets  map[string][sha256.Size]byte // by user
	token    *[sha256.Size]byte           // token for clients with all permissions; nil: none
	node     string                       // secret of userNode
	refusals *refusals
}

// newUsers reads the secrets of the users from the files in dir, and creates missing ones. Without a dir and a token,
// only the node can log in.
func newUsers(dir, token string, refusals *refusals) (*users, error) {
	u := &users{secrets: make(map[string][sha256.Size]byte), node: newSecret(), refusals: refusals}
	u.secrets[userNode] = sha256.Sum256([]byte(u.node))
	if token != "" {
		sum := sha256.Sum256([]byte(token))
		u.token = &sum
	}
	if dir == "" {
		return u, nil
	}
	if err := private(dir); err != nil {
		return nil, err
	}
	for _, name := range []string{UserAdmin, UserEvents, UserAlerts, UserConsumers, UserAcks, UserHandlers} {
		secret, err := secretOf(filepath.Join(dir, name), refusals.log)
		if err != nil {
			return nil, fmt.Errorf("%w: the secret of the NATS user %s: %w", ErrIdentity, name, err)
		}
		u.secrets[name] = sha256.Sum256([]byte(secret))
	}
	return u, nil
}

// Check implements natsserver.Authentication.
func (u *users) Check(c natsserver.ClientAuthentication) bool {
	shown := c.GetOpts()
	name, known := shown.Username, false
	if shown.Token != "" {
		name, known = "token", u.token != nil && same(*u.token, shown.Token)
	} else if sum, ok := u.secrets[name]; ok {
		known = same(sum, shown.Password)
	}
	if !known {
		from := "this process"
		if at := c.RemoteAddress(); at != nil {
			from = at.String()
		}
		u.refusals.login(name, from)
		return false
	}
	c.RegisterUser(&natsserver.User{Username: name, Permissions: permissionsOf(name)})
	return true
}

func same(sum [sha256.Size]byte, secret string) bool {
	other := sha256.Sum256([]byte(secret))
	return subtle.ConstantTimeCompare(sum[:], other[:]) == 1
}

// newSecret returns a secret of 256 random bits.
func newSecret() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // it never fails: it ends the process instead
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// private creates a folder with access for its owner only, or restricts an existing one.
func private(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = os.Chmod(dir, 0o700) //nolint:gosec // a folder
	}
	if err != nil {
		return fmt.Errorf("%w: the secrets of NATS users: %w; give the folder to the user of the node", ErrIdentity, err)
	}
	return nil
}

// secretOf reads a secret from its file, or creates both if the file is missing. If all users of the machine could
// read or write the file, the secret is replaced.
func secretOf(path string, log *slog.Logger) (string, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeSecret(path)
	}
	if err != nil {
		return "", err
	}
	switch open := info.Mode().Perm(); {
	case runtime.GOOS == "windows":
	case open&0o007 != 0:
		log.Warn("every user of this machine could read the secret of a NATS user; another took its place, which the programs of that user need", "file", path)
		return makeSecret(path)
	case open&0o070 != 0:
		if err := os.Chmod(path, 0o600); err != nil {
			return "", err
		}
		log.Warn("a group of this machine could read the secret of a NATS user; it cannot any more; for another secret, remove the file and start the node again", "file", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	secret := strings.TrimSpace(string(data))
	if len(secret) < leastToken || strings.ContainsFunc(secret, unprintable) {
		return "", fmt.Errorf("%s holds no secret of %d characters or more on one line; remove the file, and the next start makes another", path, leastToken)
	}
	return secret, nil
}

// makeSecret writes a new secret to a file. The write is atomic, so that a crash leaves the whole file or none.
func makeSecret(path string) (secret string, err error) {
	secret = newSecret()
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // created with mode 0600
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(secret + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return secret, nil
}
