package process

// Options say how commands are run. The zero value is good for a program that
// runs commands for its user.
type Options struct {
	// Dir is where a handle works whose Spec says nothing; "" is the directory
	// that this program is in when New is called.
	Dir string

	// Env is what every command's environment starts from, as "NAME=value".
	// nil means CleanEnv of this program's own environment; an empty slice
	// means nothing.
	Env []string

	// Shell is the absolute path of the shell for shell lines, which must take
	// -c. "" means bash where there is one, else sh, looked for in the PATH of
	// the command's environment and then in /bin.
	Shell string

	// TaskOutput is how many bytes the tasks of a handle may keep together of
	// their output; beyond it they keep less than was asked for, the ended ones
	// first. 0 means no limit but those of package execution. Where memory is
	// bounded, a part of it is a good limit, since that is where output is kept.
	TaskOutput int64

	// FirstProcess says that this program is the first process of a container
	// which is all the Context's. Then the Context reaps whatever falls to this
	// program, so that nothing else in it may wait for children; it kills what
	// a command leaves there when it kills its own supervisor; and it asks the
	// container's memory control group whether a command that was killed ran
	// out of memory.
	FirstProcess bool
}

// cleanNames are the variables that CleanEnv keeps: where programs and the
// user's files are, and what language and time the user reads.
var cleanNames = []string{
	"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "TERM",
}

// defaultPath is where programs are where nobody says so.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// CleanEnv is what commands get of an environment such as os.Environ unless
// Options.Env says otherwise: PATH, HOME, USER, LOGNAME, LANG, LC_ALL,
// LC_CTYPE, TZ, TMPDIR and TERM as far as they are set, and a PATH where there
// is none. Everything else stays behind, since it may be a secret.
func CleanEnv(env []string) []string {
	clean := make([]string, 0, len(cleanNames))
	for _, name := range cleanNames {
		if value, ok := lookupEnv(env, name); ok {
			clean = append(clean, name+"="+value)
		}
	}
	if _, ok := lookupEnv(clean, "PATH"); !ok {
		clean = append(clean, "PATH="+defaultPath)
	}
	return clean
}

// backendType is Context.Type.
const backendType = "process"
