# The CUDA libraries, one pair per architecture.
#
# nvcc is driven by rules of our own, not by CMake's CUDA language: configuring then costs 0.1 s instead of 10, a build
# folder can hold several architectures, nothing depends on what this version of CMake knows of C++20 in CUDA, a host
# compiler that nvcc refuses leaves the rest of the build alone, and ptxas' figures can be checked as part of the compilation.

# Sources of every CUDA library; several .cu files, so that they are compiled in parallel.
set(flashmla_cuda_host_sources api/check.cc api/status_text.cc cuda/api.cc cuda/arguments.cc
  cuda/dense_plan.cc cuda/plan.cc cuda/tensor_map.cc)
set(flashmla_cuda_device_sources cuda/sparse_v4.cu cuda/sparse_v32.cu cuda/sparse_v41.cu cuda/sparse_v41_fp4.cu
  cuda/short_v4.cu cuda/short_v32.cu cuda/long_v4.cu cuda/long_v32.cu cuda/sparse_sm90_v4.cu cuda/sparse_sm90_v32.cu
  cuda/dense576.cu cuda/dense512.cu cuda/dense_sm90_576.cu cuda/dense_sm90_512.cu cuda/combine.cu)

set(FLASHMLA_CUDA_FLAGS "" CACHE STRING "More arguments for nvcc, e.g. -lineinfo")

# flashmla_oldest_nvcc(ARCH VARIABLE): the first CUDA whose nvcc compiles for ARCH; empty for no such architecture.
function(flashmla_oldest_nvcc arch variable)
  set(oldest_sm_90a 12.0)
  set(oldest_sm_100a 12.8)
  set(oldest_sm_103a 12.9)
  set(${variable} "${oldest_${arch}}" PARENT_SCOPE)
endfunction()

# flashmla_find_nvcc(): looks anew on every configuration. Sets flashmla_nvcc, flashmla_nvcc_version, flashmla_cuda_include,
# flashmla_cudart, or flashmla_no_cuda to the reason why there is none.
function(flashmla_find_nvcc)
  set(nvcc "${CMAKE_CUDA_COMPILER}")
  if(NOT nvcc)
    set(nvcc "$ENV{CUDACXX}")
  endif()
  if(nvcc)
    find_program(found NAMES "${nvcc}" NO_CACHE)
  else()
    file(GLOB installed LIST_DIRECTORIES true /usr/local/cuda*/bin)
    list(SORT installed COMPARE NATURAL ORDER DESCENDING)
    find_program(found NAMES nvcc PATHS ENV CUDA_HOME ENV CUDA_PATH ${installed} PATH_SUFFIXES bin NO_CACHE)
  endif()
  if(NOT found)
    if(nvcc)
      set(flashmla_no_cuda "\"${nvcc}\" is not there" PARENT_SCOPE)
    else()
      set(flashmla_no_cuda "no nvcc found; it comes with NVIDIA's packages cuda-nvcc-13-0 and cuda-cudart-dev-13-0 or is \
named with -DCMAKE_CUDA_COMPILER=" PARENT_SCOPE)
    endif()
    return()
  endif()

  execute_process(COMMAND "${found}" --version OUTPUT_VARIABLE version ERROR_QUIET)
  if(NOT version MATCHES "V([0-9]+\\.[0-9]+\\.[0-9]+)")
    set(flashmla_no_cuda "\"${found}\" does not say its version" PARENT_SCOPE)
    return()
  endif()
  set(version "${CMAKE_MATCH_1}")

  # The toolkit's folders, as nvcc itself uses them.
  set(probe "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/probe.cu")
  file(WRITE "${probe}" "\n")
  execute_process(COMMAND "${found}" --dryrun -x cu -c "${probe}" -o "${probe}.o" OUTPUT_VARIABLE plan ERROR_VARIABLE plan)
  string(REGEX MATCH "INCLUDES=\"?-I([^\"\n]+)" includes "${plan}")
  string(REGEX REPLACE " +$" "" include "${CMAKE_MATCH_1}")
  string(REGEX MATCHALL "\"-L[^\"]+" folders "${plan}")
  list(TRANSFORM folders REPLACE "^\"-L" "")
  find_library(cudart NAMES libcudart_static.a HINTS ${folders} NO_CACHE)
  find_path(header NAMES cuda_runtime_api.h HINTS "${include}" NO_CACHE)
  if(NOT cudart OR NOT header)
    set(flashmla_no_cuda "\"${found}\" is there, but cuda_runtime_api.h or libcudart_static.a is not (NVIDIA's package \
cuda-cudart-dev)" PARENT_SCOPE)
    return()
  endif()

  # nvcc refuses host compilers that are newer than it knows.
  execute_process(COMMAND "${found}" -E -std=c++20 -ccbin "${CMAKE_CXX_COMPILER}" -x cu "${probe}"
    RESULT_VARIABLE result OUTPUT_QUIET ERROR_VARIABLE reason)
  if(NOT result EQUAL 0)
    string(REGEX MATCH "error[^\n]*" reason "${reason}")
    set(flashmla_no_cuda "\"${found}\" ${version} does not work with \"${CMAKE_CXX_COMPILER}\" (${reason})" PARENT_SCOPE)
    return()
  endif()

  set(flashmla_no_cuda "" PARENT_SCOPE)
  set(flashmla_nvcc "${found}" PARENT_SCOPE)
  set(flashmla_nvcc_version "${version}" PARENT_SCOPE)
  set(flashmla_cuda_include "${header}" PARENT_SCOPE)
  set(flashmla_cudart "${cudart}" PARENT_SCOPE)
endfunction()

# What of the host compiler's options the .cu files get; nvcc's own glue code is not clean under more warnings.
set(flashmla_nvcc_host_options -fPIC -fvisibility=hidden -fvisibility-inlines-hidden -ffp-contract=off -Wall -Wextra -Wshadow)
string(REPLACE ";" "," flashmla_nvcc_host_options "${flashmla_nvcc_host_options}")
find_program(flashmla_cxxfilt NAMES c++filt)
mark_as_advanced(flashmla_cxxfilt)

# flashmla_nvcc_command(ARCH VARIABLE OBJECT RESOURCES): the command up to what is compiled and where to.
function(flashmla_nvcc_command arch variable object resources)
  string(REPLACE "sm_" "" number "${arch}")
  set(launcher "${CMAKE_CUDA_COMPILER_LAUNCHER}")
  if(NOT launcher AND CMAKE_CXX_COMPILER_LAUNCHER MATCHES "ccache$")
    set(launcher "${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
  separate_arguments(more UNIX_COMMAND "${FLASHMLA_CUDA_FLAGS}")
  if(SWEEPCTL_WERROR)
    list(APPEND more -Werror all-warnings)
  endif()
  set(${variable} "${CMAKE_COMMAND}" "-DOBJECT=${object}" "-DRESOURCES=${resources}" "-DCXXFILT=${flashmla_cxxfilt}"
    -P "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/compile_cuda.cmake" --
    ${launcher} "${flashmla_nvcc}" -ccbin "${CMAKE_CXX_COMPILER}" -std=c++20 -O3 -DNDEBUG
    -gencode "arch=compute_${number},code=${arch}" -Xptxas -v "-DFLASHMLA_ARCH_NAME=\"${arch}\"" ${more} PARENT_SCOPE)
endfunction()

# flashmla_cuda_libraries(ARCH): targets flashmla-ARCH, flashmla-ARCH-padded64 and flashmla-ARCH-device, which has what is
# compiled for the device: the objects, flashmla-plain-read-ARCH.cubin and flashmla-ARCH-resources.json.
function(flashmla_cuda_libraries arch)
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${arch}")
  file(MAKE_DIRECTORY "${folder}")
  set(objects "")
  set(resources "")
  foreach(source ${flashmla_cuda_device_sources} bench/plain_read.cu)
    get_filename_component(name "${source}" NAME_WE)
    if(source STREQUAL "bench/plain_read.cu")
      set(object "${CMAKE_CURRENT_BINARY_DIR}/flashmla-plain-read-${arch}.cubin")
      set(cubin "${object}")
      set(kind -cubin)
    else()
      set(object "${folder}/${name}.o")
      list(APPEND objects "${object}")
      set(kind -c -Xcompiler "${flashmla_nvcc_host_options}")
    endif()
    set(resource "${folder}/${name}.resources")
    list(APPEND resources "${resource}")
    flashmla_nvcc_command(${arch} command "${object}" "${resource}")
    add_custom_command(OUTPUT "${object}" "${resource}"
      COMMAND ${command} ${kind} "-I${CMAKE_CURRENT_SOURCE_DIR}/.." "-I${CMAKE_CURRENT_SOURCE_DIR}/include"
        -MD -MF "${folder}/${name}.d" -MT "${object}" "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}"
      DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/compile_cuda.cmake"
        "${flashmla_nvcc}"
      DEPFILE "${folder}/${name}.d"
      COMMENT "Building CUDA object ${source} for ${arch}" VERBATIM)
  endforeach()
  set(table "${CMAKE_CURRENT_BINARY_DIR}/flashmla-${arch}-resources.json")
  add_custom_command(OUTPUT "${table}"
    COMMAND "${CMAKE_COMMAND}" -DARCH=${arch} "-DOUTPUT=${table}"
      -P "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/merge_resources.cmake" -- ${resources}
    DEPENDS ${resources} "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/merge_resources.cmake"
    COMMENT "Listing the resources of the kernels for ${arch}" VERBATIM)
  add_custom_target(flashmla-${arch}-device ALL DEPENDS ${objects} "${cubin}" "${table}")

  add_library(flashmla_${arch}_objects OBJECT ${flashmla_cuda_host_sources})
  target_link_libraries(flashmla_${arch}_objects PRIVATE flashmla_internal)
  target_include_directories(flashmla_${arch}_objects SYSTEM PRIVATE "${flashmla_cuda_include}")
  target_compile_definitions(flashmla_${arch}_objects PRIVATE
    FLASHMLA_ARCH_NAME="${arch}" FLASHMLA_NVCC_VERSION="${flashmla_nvcc_version}")
  set_target_properties(flashmla_${arch}_objects PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
  set(map "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/exports.map")
  foreach(suffix "" "-padded64")
    set(library flashmla-${arch}${suffix})
    add_library(${library} SHARED api/variant.cc $<TARGET_OBJECTS:flashmla_${arch}_objects>)
    add_dependencies(${library} flashmla-${arch}-device)
    # The runtime is inside, and stays inside.
    target_link_libraries(${library} PRIVATE flashmla_internal ${objects} "${flashmla_cudart}" ${CMAKE_DL_LIBS} rt
      PUBLIC flashmla_headers)
    # Without the names of temporary files that nvcc leaves in the symbol table the same sources give the same bytes.
    target_link_options(${library} PRIVATE "LINKER:--version-script=${map}" LINKER:--strip-all)
    set_target_properties(${library} PROPERTIES CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
      LINK_DEPENDS "${map};${objects}")
  endforeach()
  target_compile_definitions(flashmla-${arch}-padded64 PRIVATE FLASHMLA_PADDED64)
endfunction()
