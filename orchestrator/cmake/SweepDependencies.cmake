# Every dependency comes from the system; nothing is downloaded. Minimum versions are what Ubuntu 22.04 ships.
find_package(Threads REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
if(NOT TARGET yaml-cpp::yaml-cpp)  # the name exists from 0.8 on
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()
find_package(CURL 7.81 REQUIRED)
find_package(OpenSSL 3.0 REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)
find_package(fmt 8.1 REQUIRED)
find_package(spdlog 1.9 REQUIRED)
find_package(CLI11 2.1 REQUIRED)

if(SWEEPCTL_BUILD_TESTS)
  find_package(Catch2 3 QUIET)
  if(NOT Catch2_FOUND)
    find_package(Catch2 2.13 REQUIRED)
  endif()
endif()
