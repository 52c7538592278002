#!/usr/bin/env bash
# Style checks, the same for people (CMake targets format, check-format, tidy) and for .ci/run.
#   lint.sh format            rewrites the tracked C++ and CUDA sources
#   lint.sh check-format      fails when that would change one
#   lint.sh tidy FOLDER [REF] clang-tidy on what differs from REF (default: where main was left), compiled in FOLDER
#   lint.sh shell             shellcheck on the tracked shell scripts
# Exit code: 0 fine, 1 something to fix, 77 the tool is not here (with a line that begins "SKIPPED: ").
set -uo pipefail

root=$(CDPATH='' cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd) || exit 1
cd "$root" || exit 1
llvm=14  # other versions lay out some constructs differently

skip() {
  echo "SKIPPED: $1"
  exit 77
}

# llvm_tool NAME: the command for its version $llvm.
llvm_tool() {
  local candidate
  for candidate in "$1-$llvm" "$1"; do
    if "$candidate" --version 2>/dev/null | grep -q "version $llvm\."; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

sources() { git ls-files -z -- '*.h' '*.cc' '*.cu' '*.cuh'; }

case ${1:-} in
  format)
    tool=$(llvm_tool clang-format) || skip "no clang-format $llvm here"
    sources | xargs -0 -r "$tool" -i
    ;;
  check-format)
    tool=$(llvm_tool clang-format) || skip "no clang-format $llvm here"
    sources | xargs -0 -r "$tool" --dry-run -Werror || exit 1
    ;;
  tidy)
    tool=$(llvm_tool clang-tidy) || skip "no clang-tidy $llvm here"
    folder=${2:?the build folder}
    base=$(git merge-base "${3:-main}" HEAD 2>/dev/null || git merge-base origin/main HEAD 2>/dev/null) ||
      skip "no main branch to compare with; give a commit"
    mapfile -t files < <({
      git diff --name-only --diff-filter=d "$base" -- '*.cc'
      git ls-files --others --exclude-standard -- '*.cc'
    } | sort -u)
    ((${#files[@]} > 0)) || { echo "nothing changed since ${base:0:12}"; exit 0; }
    # Clang knows neither GCC's precompiled headers nor the names of its warnings. Casts and signs are checked by the build,
    # as GCC understands them.
    commands=$(mktemp -d) || exit 1
    trap 'rm -rf "$commands"' EXIT
    sed -E 's/-Winvalid-pch|-include [^ ]*cmake_pch\.hxx//g' "$folder/compile_commands.json" >"$commands/compile_commands.json"
    printf '%s\0' "${files[@]}" | xargs -0 -n 1 -P "$(nproc)" "$tool" --quiet -p "$commands" \
      --extra-arg=-Wno-unknown-warning-option --extra-arg=-Wno-old-style-cast --extra-arg=-Wno-sign-conversion || exit 1
    ;;
  shell)
    command -v shellcheck >/dev/null || skip "no shellcheck here"
    git grep -lzE '^#!.*\b(ba)?sh$|^# shellcheck shell=' | xargs -0 -r shellcheck -x || exit 1
    ;;
  *)
    sed -n '2,/^set /s/^# \{0,1\}//p' "$0"
    exit 2
    ;;
esac
