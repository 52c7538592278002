# sweep_settings and sweep_warnings are linked PRIVATE by our own targets only, never by third-party code.
add_library(sweep_settings INTERFACE)
target_compile_features(sweep_settings INTERFACE cxx_std_20)
target_include_directories(sweep_settings INTERFACE "${PROJECT_SOURCE_DIR}")
target_compile_definitions(sweep_settings INTERFACE SWEEPCTL_VERSION="${PROJECT_VERSION}")

if(SWEEPCTL_SANITIZE)
  # Line tables only, and optimisation only where time is spent (SWEEP_IS_LIGHT: where none is): a third of the time of
  # -O2 -g, and reports name the same lines. Tests are compiled once and run once: without checks of undefined behaviour in
  # the tests themselves.
  string(REPLACE ",undefined" "" sweep_test_sanitize "${SWEEPCTL_SANITIZE}")
  string(REPLACE "," "$<COMMA>" sweep_product_sanitize "${SWEEPCTL_SANITIZE}")
  string(REPLACE "," "$<COMMA>" sweep_test_sanitize "${sweep_test_sanitize}")
  set(sweep_is_test $<BOOL:$<TARGET_PROPERTY:SWEEP_IS_TEST>>)
  set(sweep_is_light $<OR:${sweep_is_test},$<BOOL:$<TARGET_PROPERTY:SWEEP_IS_LIGHT>>>)
  target_compile_options(sweep_settings INTERFACE
    $<IF:${sweep_is_test},-fsanitize=${sweep_test_sanitize},-fsanitize=${sweep_product_sanitize}>
    -fno-sanitize-recover=all -fno-omit-frame-pointer $<IF:${sweep_is_light},-O0,-O2> -g1)
  target_link_options(sweep_settings INTERFACE "-fsanitize=${SWEEPCTL_SANITIZE}")
endif()

add_library(sweep_warnings INTERFACE)
target_compile_options(sweep_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Wold-style-cast
  -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC reports false positives of these inside libstdc++ and fmt when optimising.
  target_compile_options(sweep_warnings INTERFACE -Wno-maybe-uninitialized -Wno-stringop-overflow
    -Wno-array-bounds -Wno-dangling-reference -Wno-restrict)
endif()
if(CMAKE_UNITY_BUILD)
  # Of files one by one, and checked by builds that compile them so: names of one file within another, and classes of a .cc
  # with members of that file's own types.
  target_compile_options(sweep_warnings INTERFACE -Wno-shadow -Wno-subobject-linkage)
endif()
if(SWEEPCTL_WERROR)
  target_compile_options(sweep_warnings INTERFACE -Werror)
endif()
