package configfile

// maxSecret is the maximum size of a secret in bytes.
const maxSecret = 8 << 10
