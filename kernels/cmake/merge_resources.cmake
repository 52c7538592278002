# cmake -DARCH=NAME -DOUTPUT=FILE -P merge_resources.cmake -- FILES...
#   One JSON document of the lines that compile_cuda.cmake wrote, in the order of FILES.

set(records "")
set(seen OFF)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(i RANGE ${last})
  if(seen)
    file(READ "${CMAKE_ARGV${i}}" text)
    string(APPEND records "${text}")
  elseif(CMAKE_ARGV${i} STREQUAL "--")
    set(seen ON)
  endif()
endforeach()
string(STRIP "${records}" records)
string(REPLACE "\n" ",\n    " records "${records}")
file(WRITE "${OUTPUT}" "{\n  \"schema_version\": 1,\n  \"arch\": \"${ARCH}\",\n  \"kernels\": [\n    ${records}\n  ]\n}\n")
