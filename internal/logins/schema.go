package logins

import (
	"github.com/invopop/jsonschema"

	"deadman/internal/access"
	"deadman/internal/configfile"
)

var fileFields = configfile.Table{
	{Name: "header", Form: headerFields.Object(), Text: "Headers of a trusted proxy with single sign-on."},
	{Name: "oidc", Form: providerFields.Object(), Text: "An OpenID provider."},
	{Name: "groups", Form: grantsForm(), Required: true, Text: "Grants of scopes to groups; the first with a group of the user applies."},
}

var headerFields = configfile.Table{
	{Name: "name", Form: configfile.PatternForm(headerForm.String()), Required: true, Text: "Header with the name of the user, such as X-Forwarded-User."},
	{Name: "groups", Form: configfile.PatternForm(headerForm.String()), Required: true, Text: "Header with the groups of the user, such as X-Forwarded-Groups."},
	{Name: "separator", Form: configfile.TextForm(), Text: "Separator of groups, up to 8 characters. Default: a comma."},
}

var providerFields = configfile.Table{
	{Name: "issuer", Form: configfile.PatternForm("^https?://"), Required: true, Text: "URL of the provider, as in its discovery document."},
	{Name: "title", Form: configfile.TextForm(), Text: "Title of the button on the login page. Default: host of the issuer."},
	{Name: "client_id", Form: configfile.TextForm(), Required: true, Text: "Client id of this node at the provider."},
	{Name: "client_secret_file", Form: configfile.TextForm(), Text: "File with the secret of the client, on one line; a relative path starts at the folder of this file."},
	{Name: "client_secret_env", Form: configfile.TextForm(), Text: "Environment variable of the node with the secret, in place of client_secret_file."},
	{Name: "scopes", Form: configfile.TextsForm(), Text: "Scopes in addition to openid. Default: email and profile."},
	{Name: "name", Form: configfile.TextForm(), Text: "Claim with the name of the user. Default: email."},
	{Name: "groups", Form: configfile.TextForm(), Text: "Claim with the groups of the user; with dots a nested claim. Default: groups."},
	{Name: "ca_file", Form: configfile.TextForm(), Text: "Certificates of the authority of the provider, as PEM. Default: those of the system."},
}

var grantFields = configfile.Table{
	{Name: "group", Form: groupForm(), Required: true, Text: "The group, or a list of groups."},
	{Name: "scopes", Form: configfile.ListForm(configfile.WordForm(access.Scopes...), 0), Required: true, Text: "Scopes of the users of the group."},
	{Name: "prefix", Form: configfile.TextForm(), Text: "Prefix of the names of their rules, such as acme-*. Default: all rules."},
	{Name: "subjects", Form: configfile.ListForm(configfile.TextForm(), access.MaxBounds), Text: "Subjects that their rules may read."},
	{Name: "publish", Form: configfile.ListForm(configfile.TextForm(), access.MaxBounds), Text: "Subjects that they may publish on."},
	{Name: "sources", Form: configfile.ListForm(configfile.TextForm(), access.MaxBounds), Text: "Sources that their rules may query."},
	{Name: "handlers", Form: configfile.ListForm(configfile.TextForm(), access.MaxBounds), Text: "Handlers that their rules may call."},
}

func grantsForm() *jsonschema.Schema {
	s := configfile.ListForm(grantFields.Object(), MaxGrants)
	s.MinItems = new(uint64(1))
	return s
}

func groupForm() *jsonschema.Schema {
	s := configfile.TextsForm()
	s.AnyOf[1].MaxItems = new(uint64(maxGroups))
	return s
}

// Schema returns the JSON Schema (2020-12) of a login file, for editors.
func Schema() ([]byte, error) {
	s := fileFields.Object()
	s.AnyOf = []*jsonschema.Schema{{Required: []string{"header"}}, {Required: []string{"oidc"}}}
	return configfile.Schema(s, "login", "Logins of deadman without a token")
}
