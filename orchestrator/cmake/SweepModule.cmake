# sweep_module(NAME [HOT | COMPUTES] SOURCES files... [DEPS targets...] [PRIVATE_DEPS targets...])
#   One static library per folder of orchestrator/, target sweep_NAME with alias sweep::NAME.
#   DEPS repeat the row of the module map in orchestrator/README.md.
#   HOT modules are optimised fully. The others run for milliseconds and people wait for their compilation: a fifth of
#   it is saved by optimising them lightly. Under sanitizers only modules that COMPUTE are optimised.
function(sweep_module name)
  cmake_parse_arguments(arg "HOT;COMPUTES" "" "SOURCES;DEPS;PRIVATE_DEPS" ${ARGN})
  add_library(sweep_${name} STATIC ${arg_SOURCES})
  add_library(sweep::${name} ALIAS sweep_${name})
  target_link_libraries(sweep_${name} PUBLIC sweep_settings ${arg_DEPS} PRIVATE sweep_warnings ${arg_PRIVATE_DEPS})
  if(NOT arg_COMPUTES)
    set_target_properties(sweep_${name} PROPERTIES SWEEP_IS_LIGHT ON)
  endif()
  if(NOT arg_HOT AND NOT arg_COMPUTES)
    target_compile_options(sweep_${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  endif()
endfunction()

# What ./sweepctl builds: everything the product needs at run time, and no tests.
add_custom_target(product)

# sweep_executable(NAME SOURCES files... DEPS targets...)
#   A program of the product.
function(sweep_executable name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE sweep_settings sweep_warnings ${arg_DEPS})
  add_dependencies(product ${name})
endfunction()

# sweep_compile_quickly(TARGETS...)
#   For tests and what only they use: compiled once and run once, without optimisation and, under sanitizers, without
#   checks of undefined behaviour in themselves.
function(sweep_compile_quickly)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O0>)
    set_target_properties(${target} PROPERTIES SWEEP_IS_TEST ON)
  endforeach()
endfunction()

# sweep_test(NAME SOURCES files... DEPS targets... [LABELS labels...] [TIMEOUT seconds])
#   A Catch2 executable; each TEST_CASE becomes a CTest case, a printed "SKIPPED:" line marks a skip.
function(sweep_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "SOURCES;DEPS;LABELS" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(SWEEPCTL_SANITIZE)
    math(EXPR arg_TIMEOUT "${arg_TIMEOUT} * 4")
  endif()
  if(NOT arg_LABELS)  # an empty value would shift the properties behind it by one
    set(arg_LABELS unit)
  endif()
  # Catch2's script cannot pass a list on; "ctest -L" finds a word inside a label as well.
  string(REPLACE ";" "," arg_LABELS "${arg_LABELS}")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE sweep_settings sweep_warnings sweep_test_main ${arg_DEPS})
  sweep_compile_quickly(${name})
  catch_discover_tests(${name} TEST_PREFIX "${name}: " DISCOVERY_MODE PRE_TEST
    PROPERTIES TIMEOUT ${arg_TIMEOUT} SKIP_REGULAR_EXPRESSION "SKIPPED: " LABELS "${arg_LABELS}")
endfunction()
