# Settings of every target of the project: language level, warnings as errors, ccache, output folder.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# Paths within the checkout count as relative, so that a second checkout finds what the first compiled.
# The sloppiness is what ccache asks for before it caches anything that uses a precompiled header. Such
# a header has 150 MB: without the cache of inodes, ccache hashes it again for each of 200 tests.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_INODECACHE=1 CCACHE_PCH_EXTSUM=1
      ${PROJECT_SOURCE_DIR}/cmake/compile.sh ${CCACHE_PROGRAM})
endif()

add_library(meshwright_warnings INTERFACE)
target_compile_options(
  meshwright_warnings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            $<$<BOOL:${MESHWRIGHT_WERROR}>:-Werror>
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wold-style-cast
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wswitch-enum
            -Wdouble-promotion
            # A false alarm of g++ 12 on std::string concatenation (GCC bug 105651).
            $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)

# Folders whose code a sanitizer's build leaves unoptimised, as a regular expression: clang takes half
# the time for them, and they wait for files, sockets and processes rather than compute.
set(MESHWRIGHT_UNOPTIMISED_FOLDERS "" CACHE STRING "Folders compiled with -O0 (the sanitizers' presets)")

# Folders that report which branches and comparisons an input reaches, as a regular expression: the
# parsers, in the preset of the fuzzing campaigns (bench/fuzz.sh). Unlike -fsanitize=fuzzer-no-link, this
# flag leaves the precompiled headers and the other folders as they are in the preset dev, so that ccache
# has them.
set(MESHWRIGHT_FUZZED_FOLDERS "" CACHE STRING "Folders that guide libFuzzer (the preset fuzz)")

# The headers of other projects that most libraries include are parsed once. This takes a third of the
# time of clang, but next to nothing of g++'s, so it is on in the sanitizers' presets only. It hides
# what a source forgets to include; the check of single sources (scripts/lint.sh tidy) finds that.
option(MESHWRIGHT_PRECOMPILED_HEADERS "Precompile the headers that most libraries include (clang)" OFF)

# meshwright_precompile(NAME OPTIMISATION): makes NAME, whose headers libraries with the same level of
# optimisation take over, because clang refuses them for any other.
function(meshwright_precompile name optimisation)
  set(source ${PROJECT_BINARY_DIR}/generated/${name}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT "// CMake attaches the headers to this file.\n")
  add_library(${name} STATIC ${source})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  target_compile_options(${name} PRIVATE ${optimisation} -pthread "SHELL:-Xclang -fno-pch-timestamp"
                                         -fpch-instantiate-templates)
  target_link_libraries(${name} PRIVATE absl::statusor fmt::fmt nlohmann_json::nlohmann_json
                                        meshwright_warnings)
  target_precompile_headers(
    ${name}
    PRIVATE
    <fmt/format.h>
    <fmt/ranges.h>
    <nlohmann/json.hpp>
    <absl/status/status.h>
    <absl/status/statusor.h>
    <algorithm>
    <array>
    <functional>
    <map>
    <memory>
    <optional>
    <set>
    <span>
    <string>
    <string_view>
    <tuple>
    <utility>
    <variant>
    <vector>)
endfunction()

# meshwright_library(NAME SOURCES a.cc ... PUBLIC dep ... PRIVATE dep ...)
# One static library per folder; headers are included from the repository's root.
function(meshwright_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(
    ${name}
    PUBLIC ${ARG_PUBLIC}
    PRIVATE ${ARG_PRIVATE} meshwright_warnings)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(headers library_headers)
  if(MESHWRIGHT_UNOPTIMISED_FOLDERS AND folder MATCHES "${MESHWRIGHT_UNOPTIMISED_FOLDERS}")
    target_compile_options(${name} PRIVATE -O0)
    set(headers unoptimised_library_headers)
  endif()
  if(MESHWRIGHT_FUZZED_FOLDERS AND folder MATCHES "${MESHWRIGHT_FUZZED_FOLDERS}")
    target_compile_options(
      ${name} PRIVATE -fsanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table)
  endif()
  if(MESHWRIGHT_PRECOMPILED_HEADERS)
    # Clang refuses headers that were precompiled with other definitions.
    target_compile_options(${name} PRIVATE -pthread)
    target_compile_definitions(${name} PRIVATE FMT_SHARED)
    target_precompile_headers(${name} REUSE_FROM ${headers})
  endif()
endfunction()

# meshwright_generated_library(NAME FOLDER SOURCES...)
# Compiles the code that protoc wrote into FOLDER without warnings and sanitizers. It is not ours, and with
# sanitizers it would take ten times as long to compile. Its headers are SYSTEM for those who include them.
function(meshwright_generated_library name folder)
  add_library(${name} STATIC ${ARGN})
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)  # each of its files is large
  target_include_directories(${name} SYSTEM PUBLIC ${folder})
  target_link_libraries(${name} PUBLIC gRPC::grpc++ protobuf::libprotobuf)
  if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
    target_compile_options(${name} PRIVATE -O0 -g0 -fno-sanitize=all)
  endif()
endfunction()

# meshwright_program(NAME SOURCES a.cc ... LINK dep ...)
function(meshwright_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} meshwright_warnings)
endfunction()

# meshwright_test(NAME SOURCES x_test.cc ... LINK dep ... [MAIN] [OPTIMISED] [PROPERTIES name value ...]
#                 [MEMORY_SKIPS regex] [THREADS_SKIPS regex])
# A GoogleTest program; ctest runs every suite of it once, with these properties. MAIN: one of the
# sources has the main function. OPTIMISED: for tests that compute much; without the shared header.
# MEMORY_SKIPS, THREADS_SKIPS: suites that do not run where MESHWRIGHT_TESTS is "memory" or "threads".
function(meshwright_test name)
  cmake_parse_arguments(ARG "MAIN;OPTIMISED" "MEMORY_SKIPS;THREADS_SKIPS" "SOURCES;LINK;PROPERTIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} absl::statusor fmt::fmt GTest::gtest
                                        GTest::gmock meshwright_warnings)
  if(NOT ARG_MAIN)
    target_link_libraries(${name} PRIVATE GTest::gtest_main)
  endif()
  # Every file has its Case and kCases, so each has a namespace of its own. Several in one unit take a
  # third of the time, because most of it goes into the matchers of GoogleMock.
  if(CMAKE_UNITY_BUILD AND NOT ARG_MAIN)
    set_target_properties(${name} PROPERTIES UNITY_BUILD_UNIQUE_ID MESHWRIGHT_TEST_FILE)
  else()
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
    target_compile_definitions(${name} PRIVATE MESHWRIGHT_TEST_FILE=test_file)
  endif()
  if(ARG_OPTIMISED)
    target_compile_options(${name} PRIVATE -O1)
  else()
    # Otherwise most of the time of a build goes into optimising what runs once.
    target_compile_options(${name} PRIVATE -O0 -pthread)
    target_precompile_headers(${name} REUSE_FROM test_headers)
  endif()
  string(TOUPPER "ARG_${MESHWRIGHT_TESTS}_SKIPS" skips)
  meshwright_list_suites(${name} "${${skips}}" ${ARG_PROPERTIES})
endfunction()

# meshwright_list_suites(NAME SKIPS [property value ...]): makes a test of ctest of every suite whose name
# does not match SKIPS, as soon as the program is built. A process for each single test costs more than the
# tests do.
function(meshwright_list_suites name skips)
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake)
  add_custom_command(
    TARGET ${name}
    POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DPROGRAM=$<TARGET_FILE:${name}> -DNAME=${name} "-DSKIPS=${skips}" -DOUT=${suites}
            -DFOLDER=${CMAKE_CURRENT_BINARY_DIR} "-DPROPERTIES=${ARGN}" -P
            ${PROJECT_SOURCE_DIR}/cmake/list_suites.cmake
    BYPRODUCTS ${suites}
    VERBATIM)
  set(included ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake)
  file(WRITE ${included} "if(EXISTS [=[${suites}]=])\n  include([=[${suites}]=])\nelse()\n"
                         "  add_test(${name}_NOT_BUILT ${name}_NOT_BUILT)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${included})
endfunction()

# meshwright_embed(TARGET VARIABLE FILES...)
# Compiles data files into TARGET. VARIABLE.h declares, in namespace meshwright,
#   std::span<const EmbeddedFile> VARIABLE();   // sorted by name; name without folder and extension
# Include it as "<folder of the CMakeLists>/VARIABLE.h" from the build tree's generated/ folder.
function(meshwright_embed target variable)
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${CMAKE_CURRENT_SOURCE_DIR})
  set(out ${PROJECT_BINARY_DIR}/generated/${folder}/${variable})
  set(files "")
  foreach(path IN LISTS ARGN)
    cmake_path(ABSOLUTE_PATH path)
    list(APPEND files ${path})
  endforeach()
  add_custom_command(
    OUTPUT ${out}.cc ${out}.h
    COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DVARIABLE=${variable} -DFOLDER=${folder}
            "-DFILES=${files}" -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    VERBATIM)
  target_sources(${target} PRIVATE ${out}.cc ${out}.h)
  target_include_directories(${target} PRIVATE ${PROJECT_BINARY_DIR}/generated)
endfunction()
