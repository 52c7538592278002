# shellcheck shell=bash
# Set-up shared by ./sweepctl and ./tests/run: finds or installs what the build needs, configures and builds.
# Sourced, never run. The callers use setup_begin, setup_is_current, setup_build and setup_export; the rest is detail.
#   - Whatever it says goes to stderr, the output of the tools to build/setup.log.
#   - A failure ends the caller with exit code 3, an interrupt with 130 or 143.
#   - The package manager is called only when a header or a tool is missing.

shopt -s lastpipe  # the loop that follows a tool's output keeps its variables

setup_oldest_gcc=12
setup_oldest_clang=15
setup_oldest_cmake=3.22

# name | headers, any of which will do | packages of Debian and Ubuntu | of Fedora | of Arch
setup_libraries=(
  "yaml-cpp|yaml-cpp/yaml.h|libyaml-cpp-dev|yaml-cpp-devel|yaml-cpp"
  "libcurl|curl/curl.h|libcurl4-openssl-dev|libcurl-devel|curl"
  "OpenSSL|openssl/evp.h|libssl-dev|openssl-devel|openssl"
  "nlohmann/json|nlohmann/json.hpp|nlohmann-json3-dev|json-devel|nlohmann-json"
  "spdlog|spdlog/spdlog.h|libspdlog-dev|spdlog-devel|spdlog"
  "fmt|fmt/format.h|libfmt-dev|fmt-devel|fmt"
  "CLI11|CLI/CLI.hpp|libcli11-dev|cli11-devel|cli11"
)
setup_test_libraries=(
  "Catch2|catch2/catch.hpp catch2/catch_all.hpp|catch2|catch-devel|catch2"
)

# setup_begin ROOT PROGRAM: PROGRAM is the name that messages begin with.
setup_begin() {
  setup_root=$1
  setup_program=$2
  setup_log=$setup_root/build/setup.log
  setup_stamp=$setup_root/build/release/.sweepctl-stamp
  # With stdin closed the next file opened would become the stdin of every child.
  { : <&0; } 2>/dev/null || exec </dev/null
}

# setup_is_current: true when build/release/bin/sweepctl was built from the sources as they are now, in this place, by
# the compiler that is still there, and the libraries it was linked with are too. One process, no output.
setup_is_current() {
  local key value file='' same=0 changed
  setup_compiler=''
  [[ -x $setup_root/build/release/bin/sweepctl && -r $setup_stamp ]] || return 1
  while IFS='=' read -r key value; do
    case $key in
      root) [[ $value == "$setup_root" ]] || return 1; same=1 ;;
      environment) [[ $value == "$(setup_environment)" ]] || return 1 ;;
      compiler) setup_compiler=$value ;;
      compiler_file) file=$value ;;
      generator) setup_generator=$value ;;
      library) [[ -e $value ]] || return 1 ;;
    esac
  done <"$setup_stamp"
  [[ $same == 1 && -x $setup_compiler && $setup_compiler -ef $file ]] || return 1
  # An upgraded compiler keeps the old date of its package: its inode change time tells.
  changed=$(find -H "$setup_root"/{sweepctl,CMakeLists.txt,CMakePresets.json,orchestrator,kernels} "$file" \
    \( -newer "$setup_stamp" -o -path "$file" -cnewer "$setup_stamp" \) -print -quit 2>&1)
  [[ -z $changed ]]
}

# setup_build PRESET TARGET [tests]: brings build/PRESET up to date. One at a time per checkout.
setup_build() {
  local preset=$1 target=$2 with_tests=${3:-} marker
  trap 'setup_interrupted 130' INT
  trap 'setup_interrupted 143' TERM
  setup_lock
  if [[ -z $with_tests ]] && setup_is_current; then  # the one who held the lock has built it
    setup_unlock
    return
  fi
  marker=$setup_root/build/.setup-began
  : >"$setup_log"
  : >"$marker"
  setup_require "$with_tests"
  setup_configure "$preset" "$with_tests"
  setup_compile "$preset" "$target"
  [[ $preset != release ]] || setup_write_stamp "$marker"
  setup_unlock
  trap - INT TERM
}

# setup_export: what the product needs to know of this build. It compiles the kernels at run time, where there may be no
# "c++" that is new enough and no make, which is what CMake takes by default.
setup_export() {
  export SWEEPCTL_ROOT=$setup_root
  [[ $(type -P c++) -ef $setup_compiler ]] || export SWEEPCTL_CXX=$setup_compiler
  [[ $setup_generator != Ninja ]] || export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}
}

# ---- messages ----

setup_quiet() { [[ ${SWEEPCTL_QUIET:-0} != 0 ]]; }

setup_say() {
  setup_quiet || printf '%s%s: %s\n' "$(setup_line_start)" "$setup_program" "$1" >&2
}

setup_line_start() { [[ ! -t 2 ]] || printf '\r\033[K'; }

setup_interrupted() {
  local try IFS=$' \t\n'  # the trap may run inside a read that has another one
  trap '' INT TERM
  # A build that went on unseen would meet the next one in the same folder.
  for ((try = 0; try < 100; ++try)); do
    setup_descendants "$$"
    ((${#setup_found[@]} > 0)) || break
    kill -TERM "${setup_found[@]}" 2>/dev/null
    sleep 0.05
  done
  printf '%s%s: interrupted; run the same command again to go on from here\n' "$(setup_line_start)" "$setup_program" >&2
  exit "$1"
}

# setup_descendants PID: leaves the processes below PID in setup_found, the eldest first.
setup_descendants() {
  local next
  local -a below=("$1") children
  setup_found=()
  while ((${#below[@]} > 0)); do
    next=${below[0]}
    below=("${below[@]:1}")
    children=()  # the list has no line end, so read fails even when it read it
    read -ra children 2>/dev/null <"/proc/$next/task/$next/children" || true
    setup_found+=("${children[@]}")
    below+=("${children[@]}")
  done
}

# setup_fail MESSAGE [log]: with "log" the part of the log that explains it is shown.
setup_fail() {
  printf '%s%s: error: %s\n' "$(setup_line_start)" "$setup_program" "$1" >&2
  if [[ ${2:-} == log && -s $setup_log ]]; then
    # What a parallel build prints after its first failure buries the reason.
    { sed -n '/^FAILED: /,$p' "$setup_log" | head -n 40 | grep . || tail -n 15 "$setup_log"; } | sed 's/^/  | /' >&2
    printf '%s: the whole log: %s\n' "$setup_program" "$setup_log" >&2
  fi
  exit 3
}

# setup_run WHAT COMMAND...: runs a tool, its output into the log, its progress on the screen. Nothing is shown before
# the tool reports a step, so a run with nothing to do stays silent. Returns the tool's exit code.
setup_run() {
  local what=$1 line step shown=-1 began=$SECONDS first=1
  shift
  printf '$ %s\n' "$*" >>"$setup_log"
  "$@" </dev/null 2>&1 9>&- | while IFS= read -r line; do
    printf '%s\n' "$line" >>"$setup_log"
    if [[ $line =~ ^\[([0-9]+/[0-9]+|\ *[0-9]+%)\]\ (.*) ]]; then
      [[ ${BASH_REMATCH[2]} != *"Built target"* ]] || continue
      step="${BASH_REMATCH[1]} ${BASH_REMATCH[2]}"
    elif [[ $line =~ ^(Get:[0-9]+|Unpacking|Setting\ up)\  ]]; then
      step=${line%% \(*}
    else
      continue
    fi
    setup_quiet && continue
    if [[ -t 2 ]]; then
      step="$setup_program: $what: $step"
      printf '\r\033[K%s' "${step:0:$((${COLUMNS:-80} - 1))}" >&2
    elif ((first || SECONDS - shown >= 20)); then
      if ((first)); then setup_say "$what"; else setup_say "$what: $step ($((SECONDS - began)) s)"; fi
      shown=$SECONDS
    fi
    first=0
  done
  local status=${PIPESTATUS[0]}
  if ((status == 0 && !first)); then setup_say "$what: done in $((SECONDS - began)) s"; fi
  ((status != 130)) || setup_interrupted 130
  return "$status"
}

# ---- lock ----

setup_lock() {
  if ! mkdir -p "$setup_root/build" 2>/dev/null || ! { exec 9>"$setup_root/build/.lock"; } 2>/dev/null; then
    setup_fail "cannot write to \"$setup_root/build\""
  fi
  if type -P flock >/dev/null && ! flock -n 9; then
    setup_say "another set-up of this checkout is running; waiting for it"
    flock 9
  fi
}

setup_unlock() { exec 9>&-; }

# ---- what is needed ----

# setup_field N "a|b|c": the N-th field, from 1.
setup_field() {
  local -a fields
  IFS='|' read -ra fields <<<"$2"
  printf '%s' "${fields[$1 - 1]}"
}

# setup_any_of COMMAND...: true when one of them is on PATH.
setup_any_of() {
  local name
  for name in "$@"; do if type -P "$name" >/dev/null; then return 0; fi; done
  return 1
}

# setup_require [tests]: leaves the compiler in setup_compiler, or ends with a list of what to install.
setup_require() {
  local with_tests=$1
  setup_look "$with_tests"
  if ((${#setup_missing[@]} == 0)); then
    # Not worth calling a package manager for, perhaps without a network: the build can do without.
    ((${#setup_wanted[@]} == 0)) ||
      setup_say "not found, some commands will need it: $(setup_names "${setup_wanted[@]}")"
  elif setup_find_root_command; then
    setup_install
    hash -r
    setup_look "$with_tests"
    ((${#setup_missing[@]} == 0)) || setup_list_missing "installing did not provide everything; see $setup_log"
  else
    setup_list_missing "$setup_why_no_install"
  fi
}

# setup_look [tests]: fills setup_missing (the build needs it) and setup_wanted (some commands do) with table rows.
setup_look() {
  local with_tests=$1 row header found i=0 probe=''
  local -a libraries=("${setup_libraries[@]}")
  [[ -z $with_tests ]] || libraries+=("${setup_test_libraries[@]}")
  setup_missing=()
  setup_wanted=()
  setup_write_probe "${libraries[@]}"
  if ! setup_find_compiler; then
    setup_missing+=("a C++20 compiler (GCC $setup_oldest_gcc or newer, or clang $setup_oldest_clang or newer)||$(setup_gcc_package)|gcc-c++|gcc")
  fi
  for row in "${libraries[@]}"; do
    found=0
    if [[ -n $setup_compiler ]]; then
      [[ $setup_probed != *"@have $i "* ]] || found=1
    else  # nothing to ask: the usual places
      for header in $(setup_field 2 "$row"); do
        [[ ! -e /usr/include/$header && ! -e /usr/local/include/$header ]] || found=1
      done
    fi
    ((found)) || setup_missing+=("$row")
    i=$((i + 1))
  done
  setup_new_cmake || setup_missing+=("CMake $setup_oldest_cmake or newer||cmake|cmake|cmake")
  setup_any_of ninja ninja-build make || setup_missing+=("ninja or make||ninja-build|ninja-build|ninja")
  local git_row="git||git|git|git"
  if ! type -P git >/dev/null; then
    if [[ -n $with_tests ]]; then setup_missing+=("$git_row"); else setup_wanted+=("$git_row"); fi
  fi
  # Without certificates no https; only the commands that talk to a model hub need it.
  for probe in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/cert.pem \
    "${SSL_CERT_FILE:-}"; do
    [[ -n $probe && -e $probe ]] && return
  done
  setup_wanted+=("CA certificates||ca-certificates|ca-certificates|ca-certificates")
}

# One preprocessor run answers for the compiler, its standard library and every header.
setup_write_probe() {
  local row header condition i=0
  setup_probe_source=$'#if __has_include(<version>)\n#include <version>\n#endif\n'
  setup_probe_source+=$'#if defined(__clang__)\n@compiler clang __clang_major__\n'
  setup_probe_source+=$'#elif defined(__GNUC__)\n@compiler gcc __GNUC__\n#endif\n'
  setup_probe_source+="#if defined(_LIBCPP_VERSION) || (defined(_GLIBCXX_RELEASE) && _GLIBCXX_RELEASE >= $setup_oldest_gcc)"
  setup_probe_source+=$'\n@library\n#endif\n'
  for row in "$@"; do
    condition=''
    for header in $(setup_field 2 "$row"); do condition+="${condition:+ || }__has_include(<$header>)"; done
    setup_probe_source+="#if $condition"$'\n'"@have $i "$'\n#endif\n'
    i=$((i + 1))
  done
}

# setup_find_compiler: CXX if set; otherwise the one this folder was configured with, then the system's.
setup_find_compiler() {
  local candidate kind version oldest prefix answer
  local -a command include=() candidates=("${CXX:-}")
  if [[ -z ${CXX:-} ]]; then
    candidates=("$(setup_cached release CMAKE_CXX_COMPILER)" c++ g++ g++-{15..12} clang++ clang++-{21..15})
  fi
  local IFS=$' \t\n:'
  for prefix in ${CMAKE_PREFIX_PATH:-}; do include+=(-isystem "$prefix/include"); done
  IFS=$' \t\n'
  setup_compiler=''
  for candidate in "${candidates[@]}"; do
    read -ra command <<<"$candidate"
    if ((${#command[@]} == 0)) || ! type -P "${command[0]}" >/dev/null; then continue; fi
    answer=$("${command[@]}" -std=c++20 "${include[@]}" -E -P -x c++ - <<<"$setup_probe_source" 2>/dev/null) || continue
    [[ $answer =~ @compiler\ (gcc|clang)\ ([0-9]+) && $answer == *@library* ]] || continue
    kind=${BASH_REMATCH[1]}
    version=${BASH_REMATCH[2]}
    oldest=$setup_oldest_gcc
    [[ $kind == gcc ]] || oldest=$setup_oldest_clang
    ((version >= oldest)) || continue
    setup_compiler=$(type -P "${command[0]}")
    setup_compiler_name="$kind $version"
    setup_probed=${answer//$'\n'/ }" "
    return 0
  done
  return 1
}

setup_gcc_package() {
  local codename=''
  [[ ! -r /etc/os-release ]] || codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  # Where the default compiler is too old the next one has a name of its own.
  if [[ $codename == jammy ]] || type -P g++ >/dev/null; then printf 'g++-%s' "$setup_oldest_gcc"; else printf 'g++'; fi
}

setup_new_cmake() {
  local version major minor
  version=$(cmake --version 2>/dev/null) || return 1
  [[ $version =~ ([0-9]+)\.([0-9]+) ]] || return 1
  major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[2]}
  ((major > ${setup_oldest_cmake%.*} || (major == ${setup_oldest_cmake%.*} && minor >= ${setup_oldest_cmake#*.})))
}

setup_names() {
  local row names=''
  for row in "$@"; do names+="${names:+, }$(setup_field 1 "$row")"; done
  printf '%s' "$names"
}

setup_packages() {  # FIELD ROW...
  local field=$1 row names=''
  shift
  for row in "$@"; do names+="${names:+ }$(setup_field "$field" "$row")"; done
  printf '%s' "$names"
}

setup_list_missing() {
  local all=("${setup_missing[@]}" "${setup_wanted[@]}")
  {
    printf '%s%s: error: the build needs, and did not find: %s\n' "$(setup_line_start)" "$setup_program" \
      "$(setup_names "${setup_missing[@]}")"
    [[ -z ${CXX:-} || -n $setup_compiler ]] || printf '  (CXX is set to "%s" and was the only compiler asked)\n' "$CXX"
    printf '%s: %s\n' "$setup_program" "$1"
    printf '  Debian, Ubuntu  apt-get install --no-install-recommends %s\n' "$(setup_packages 3 "${all[@]}")"
    printf '  Fedora          dnf install %s\n' "$(setup_packages 4 "${all[@]}")"
    printf '  Arch            pacman -S --needed %s\n' "$(setup_packages 5 "${all[@]}")"
  } >&2
  exit 3
}

# ---- installing ----

# setup_find_root_command: how to become root (setup_as_root), or why packages cannot be installed here.
setup_find_root_command() {
  setup_as_root=()
  if ! type -P apt-get >/dev/null; then
    setup_why_no_install="this system has no apt-get, so install them yourself:"
    return 1
  fi
  ((EUID != 0)) || return 0
  setup_why_no_install="installing needs root or sudo without a password, so have them installed:"
  type -P sudo >/dev/null && sudo -n true </dev/null 2>/dev/null && setup_as_root=(sudo -n)
}

setup_install() {
  local packages apt began=$SECONDS
  local -a words
  packages=$(setup_packages 3 "${setup_missing[@]}" "${setup_wanted[@]}")
  read -ra words <<<"$packages"
  apt=("${setup_as_root[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get -q -o DPkg::Lock::Timeout=300
    -o Dpkg::Use-Pty=0)
  setup_say "installing $packages"
  # Old lists are still worth a try when the update fails, for example because of an unrelated source.
  setup_run "updating the package lists" "${apt[@]}" update ||
    setup_say "the package lists could not be updated; trying with what is there"
  if ! setup_run "installing packages" "${apt[@]}" install -y --no-install-recommends "${words[@]}"; then
    if grep -q 'dpkg was interrupted' "$setup_log"; then
      setup_run "finishing an interrupted installation" "${apt[@]:0:${#setup_as_root[@]}+3}" dpkg --configure -a &&
        setup_run "installing packages" "${apt[@]}" install -y --no-install-recommends "${words[@]}" && return
    fi
    if grep -q 'Unable to locate package' "$setup_log" && grep -qs '^ID=ubuntu' /etc/os-release; then
      setup_fail "a package was not found; some are in Ubuntu's \"universe\" (add-apt-repository universe)" log
    fi
    setup_fail "the packages could not be installed: $packages" log
  fi
}

# ---- configuring and building ----

setup_environment() { printf '%s|%s|%s|%s' "${CXX:-}" "${CXXFLAGS:-}" "${LDFLAGS:-}" "${CMAKE_PREFIX_PATH:-}"; }

# setup_cached PRESET VARIABLE: its value in the CMake cache, empty when there is none.
setup_cached() {
  local cache=$setup_root/build/$1/CMakeCache.txt
  [[ ! -r $cache ]] || sed -n "s/^$2:[A-Z]*=//p" "$cache" | head -n 1
}

# setup_configure PRESET [tests]: runs CMake when the folder does not fit the wishes or a build file changed; everything
# else is left to the build tool, which repeats the configuration by itself.
setup_configure() {
  local preset=$1 with_tests=$2 folder=$setup_root/build/$1 launcher tests werror
  local -a options=()
  mkdir -p "$folder"
  setup_forget_other_setup "$preset"
  setup_generator=$(setup_cached "$preset" CMAKE_GENERATOR)
  launcher=$(setup_cached "$preset" CMAKE_CXX_COMPILER_LAUNCHER)
  tests=$(setup_cached "$preset" SWEEPCTL_BUILD_TESTS)
  werror=${SWEEPCTL_WERROR:-$(setup_cached "$preset" SWEEPCTL_WERROR)}
  if [[ -z $setup_generator ]]; then
    setup_generator='Unix Makefiles'
    if setup_any_of ninja ninja-build; then setup_generator=Ninja; fi
    # The cache is only of use if it can be written.
    if type -P ccache >/dev/null && ccache --show-stats >/dev/null 2>&1; then launcher=ccache; fi
  elif [[ -n $launcher ]] && ! type -P "$launcher" >/dev/null; then
    launcher=''
  fi
  [[ -z $with_tests ]] || tests=ON
  [[ -n ${CXX:-} ]] || options+=(-DCMAKE_CXX_COMPILER="$setup_compiler")
  options+=(-G "$setup_generator" -DCMAKE_CXX_COMPILER_LAUNCHER="$launcher" -DSWEEPCTL_BUILD_TESTS="${tests:-OFF}"
    -DSWEEPCTL_WERROR="${werror:-OFF}")
  if ! setup_is_configured "$preset" "${options[*]}"; then
    setup_say "configuring ($preset, $setup_compiler_name, $setup_generator)"
    setup_run configuring cmake -S "$setup_root" --preset "$preset" "${options[@]}" ||
      setup_fail "configuring failed" log
    printf '%s\n' "${options[*]}" >"$folder/.setup-options"
    setup_environment >"$folder/.setup-environment"
  fi
}

# A CMake cache ties its folder to a place, a compiler and a build tool; with another one it has to go.
setup_forget_other_setup() {
  local preset=$1 folder=$setup_root/build/$1 home compiler generator tool=make
  [[ -e $folder/CMakeCache.txt ]] || return 0
  home=$(setup_cached "$preset" CMAKE_HOME_DIRECTORY)
  compiler=$(setup_cached "$preset" CMAKE_CXX_COMPILER)
  generator=$(setup_cached "$preset" CMAKE_GENERATOR)
  [[ $generator != Ninja ]] || tool=$(setup_cached "$preset" CMAKE_MAKE_PROGRAM)
  if [[ $home == "$setup_root" && $compiler -ef $setup_compiler ]] && type -P "$tool" >/dev/null &&
    { [[ ! -e $folder/.setup-environment ]] || [[ $(<"$folder/.setup-environment") == "$(setup_environment)" ]]; }; then
    return 0
  fi
  setup_say "the checkout, the compiler or the build tool changed: configuring anew"
  rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles" "$folder/build.ninja" "$folder/Makefile"
}

setup_is_configured() {
  local folder=$setup_root/build/$1 wished=$2 rules newer
  rules=$folder/build.ninja
  [[ -e $rules ]] || rules=$folder/Makefile
  [[ -e $rules && -e $folder/.setup-options && $(<"$folder/.setup-options") == "$wished" ]] || return 1
  # A new module is found by the existence of its CMakeLists.txt, which no build tool notices.
  newer=$(find "$setup_root"/{CMakeLists.txt,CMakePresets.json,orchestrator,kernels,tests} \
    \( -name CMakeLists.txt -o -name CMakePresets.json -o -name '*.cmake' \) -newer "$rules" -print -quit 2>/dev/null)
  [[ -z $newer ]]
}

setup_compile() {
  local preset=$1 target=$2
  export NINJA_STATUS='[%f/%t] '
  export CCACHE_BASEDIR=${CCACHE_BASEDIR:-$setup_root} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR:-1}
  setup_run "building ($preset)" cmake --build "$setup_root/build/$preset" --target "$target" \
    --parallel "$(setup_jobs)" || setup_fail "building failed" log
}

# setup_jobs: one per core, but no more than the memory allows at about 1 GiB each. In a container its limits count.
setup_jobs() {
  local jobs memory_kib=0 limit quota period
  jobs=${CMAKE_BUILD_PARALLEL_LEVEL:-}
  if [[ ! $jobs =~ ^[1-9][0-9]*$ ]]; then
    jobs=$(nproc 2>/dev/null || echo 1)
    if read -r quota period 2>/dev/null </sys/fs/cgroup/cpu.max && [[ $quota =~ ^[0-9]+$ ]]; then
      quota=$(((quota + period - 1) / period))
      ((quota >= jobs)) || jobs=$quota
    fi
    [[ ! -r /proc/meminfo ]] || memory_kib=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
    if read -r limit 2>/dev/null </sys/fs/cgroup/memory.max && [[ $limit =~ ^[0-9]+$ ]]; then
      ((limit / 1024 >= memory_kib)) || memory_kib=$((limit / 1024))
    fi
    ((memory_kib == 0 || memory_kib / 1048576 >= jobs)) || jobs=$((memory_kib / 1048576))
    ((jobs > 0)) || jobs=1
  fi
  printf '%s' "$jobs"
}

# setup_write_stamp MARKER: what setup_is_current compares with. Dated when the build began, so that a file saved while
# it ran counts as changed.
setup_write_stamp() {
  local binary=$setup_root/build/release/bin/sweepctl
  [[ -x $binary ]] || setup_fail "the build did not make \"$binary\""
  {
    printf 'root=%s\nenvironment=%s\n' "$setup_root" "$(setup_environment)"
    printf 'compiler=%s\ncompiler_file=%s\n' "$setup_compiler" "$(readlink -f -- "$setup_compiler")"
    printf 'generator=%s\n' "$setup_generator"
    ldd "$binary" 2>/dev/null | sed -n 's/.* => \(\/[^ ]*\) .*/library=\1/p'
  } >"$setup_stamp.new"
  touch -r "$1" "$setup_stamp.new" && mv -f "$setup_stamp.new" "$setup_stamp"
}
