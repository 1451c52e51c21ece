# What every target of the project shares: language level, warnings as errors, ccache, output folder.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# Paths within the checkout count as relative, so that a second checkout finds what the first compiled.
find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${CCACHE_PROGRAM})
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
endfunction()

# meshwright_program(NAME SOURCES a.cc ... LINK dep ...)
function(meshwright_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} meshwright_warnings)
endfunction()

# meshwright_test(NAME SOURCES x_test.cc ... LINK dep ... [PROPERTIES name value ...])
# A GoogleTest program; ctest runs every test of it apart, with these properties.
if(MESHWRIGHT_BUILD_TESTS)
  include(GoogleTest)
endif()
function(meshwright_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK;PROPERTIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINK} GTest::gtest GTest::gmock GTest::gtest_main
                                        meshwright_warnings)
  # Else most of the time of a build goes into optimising what runs once.
  target_compile_options(${name} PRIVATE -O0)
  set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)  # every file has its Case and kCases
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 NO_PRETTY_VALUES PROPERTIES ${ARG_PROPERTIES})
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
