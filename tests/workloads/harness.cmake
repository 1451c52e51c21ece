# The harness: Python's standard library alone. One preset will do, sanitizers would see nothing of it.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  foreach(name harness_test harness_parts_test harness_failures_test)
    add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/${name}.py)
    set_tests_properties(${name} PROPERTIES TIMEOUT 300)
  endforeach()
endif()
