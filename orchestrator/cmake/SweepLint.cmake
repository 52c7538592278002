# Targets format, check-format and tidy (what changed since main); see lint.sh.
foreach(check format check-format tidy)
  add_custom_target(${check}
    COMMAND "${CMAKE_CURRENT_LIST_DIR}/lint.sh" ${check} "${CMAKE_BINARY_DIR}"
    WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" USES_TERMINAL VERBATIM)
endforeach()
