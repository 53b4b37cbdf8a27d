"""`phalanx completion` in real shells: keys typed on a terminal, Tab included."""

import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAMS = os.environ.get("PHALANX_PROGRAM_DIR", ROOT + "/build/release/bin")
SHELL_SECONDS = 60

# Ctrl-X r writes the line as it stands to $LINE_FILE, whole or not at all.
BASH_RC = r"""
PS1=
source <(phalanx completion bash)
report() { printf %s "$READLINE_LINE" > "$LINE_FILE.part"; mv "$LINE_FILE.part" "$LINE_FILE"; }
bind -x '"\C-xr": report'
"""
ZSH_RC = r"""
PS1=
autoload -Uz compinit
compinit -u -d "$HOME/dump"
source <(phalanx completion zsh)
report() { print -rn -- "$BUFFER" > "$LINE_FILE.part"; mv "$LINE_FILE.part" "$LINE_FILE"; }
zle -N report
bindkey '^Xr' report
"""
SHELLS = {
    "bash": (["/bin/bash", "--noprofile", "--rcfile", ".rc", "-i"], ".rc", BASH_RC),
    "zsh": (["/usr/bin/zsh", "-d", "-i"], ".zshrc", ZSH_RC),
}


def run(*words):
    return subprocess.run(
        [PROGRAMS + "/phalanx", *words], capture_output=True, text=True, check=True
    ).stdout


def typed(shell, keys):
    """What stands on the line of an interactive shell after these keys."""
    argv, rc_name, rc = SHELLS[shell]
    with tempfile.TemporaryDirectory() as home:
        line_file = home + "/line"
        os.makedirs(home + "/models/one")
        open(home + "/prompt.txt", "w").close()
        with open(home + "/" + rc_name, "w") as file:
            file.write(rc)
        environment = {
            "PATH": PROGRAMS + ":" + os.environ["PATH"],
            "HOME": home,
            "ZDOTDIR": home,
            "TERM": "dumb",
            "LINE_FILE": line_file,
        }
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(home)
            os.execve(argv[0], argv, environment)
        os.write(terminal, keys.encode() + b"\x18r")
        shown = b""
        end = time.monotonic() + SHELL_SECONDS
        while not os.path.exists(line_file) and time.monotonic() < end:
            if select.select([terminal], [], [], 0.02)[0]:
                try:
                    shown += os.read(terminal, 4096)
                except OSError:  # The shell has ended.
                    break
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
        assert os.path.exists(line_file), f"{shell} showed {shown!r}"
        with open(line_file) as file:
            return file.read()


class CompletionTest(unittest.TestCase):
    def completes(self, keys, line, zsh_line=None):
        self.assertEqual(typed("bash", f"phalanx {keys}\t"), f"phalanx {line}")
        self.assertEqual(typed("zsh", f"phalanx {keys}\t"), f"phalanx {zsh_line or line}")

    def test_a_verb(self):
        self.completes("tok", "tokenize ")

    def test_a_flag_of_the_program(self):
        self.completes("--vers", "--version ")

    def test_a_flag_of_a_verb(self):
        self.completes("serve --insec", "serve --insecure-bind ")

    def test_a_flag_that_takes_a_value(self):
        self.completes("serve --moe", "serve --moe-mode ", "serve --moe-mode=")

    def test_a_choice(self):
        self.completes("serve --numerics f", "serve --numerics fma ")

    def test_a_choice_after_equals(self):
        self.completes("serve --numerics=f", "serve --numerics=fma ")

    def test_a_folder(self):
        self.completes("check --model m", "check --model models/")

    def test_a_file(self):
        self.completes("generate --prompt-file p", "generate --prompt-file prompt.txt ")

    def test_a_flag_of_the_verb_that_another_program_has(self):
        self.completes("plan --offl", "plan --offload-bank ", "plan --offload-bank=")

    def test_a_list_goes_on(self):
        self.completes(
            "plan --moe-mode offload,r",
            "plan --moe-mode offload,resident ",
            "plan --moe-mode offload,resident,",
        )

    def test_an_argument_of_few_words(self):
        self.completes("completion z", "completion zsh ")


class EveryFlagTest(unittest.TestCase):
    """What --help lists, which is another way to the same flags."""

    def offered(self, words):
        script = run("completion", "bash") + (
            f"COMP_WORDS=(phalanx {words} --)\n"
            "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_phalanx\n"
            'printf "%s\\n" "${COMPREPLY[@]}"\n'
        )
        done = subprocess.run(
            ["/bin/bash"], input=script, capture_output=True, text=True, check=True
        )
        return sorted(done.stdout.split())

    def test_every_flag_of_every_verb_is_offered(self):
        flags_of = lambda text: sorted(re.findall(r"^  (--[\w-]+)", text, re.M))  # noqa: E731
        verbs = re.findall(r"^  (\w+) ", run("--help").split("Verbs:")[1].split("\n\n")[0], re.M)

        self.assertIn("serve", verbs)
        self.assertIn("plan", verbs)
        for verb in verbs:
            flags = set(flags_of(run(verb, "--help")))
            if verb == "bench":
                for what in ("kernels", "model"):
                    flags.update(flags_of(run(verb, what, "--help")))
            self.assertEqual(self.offered(verb), sorted(flags), verb)
        self.assertEqual(self.offered(""), flags_of(run("--help")))


if __name__ == "__main__":
    unittest.main(verbosity=2)
