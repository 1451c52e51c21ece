# Run after a test program is linked: asks the program for its suites and writes OUT, which ctest
# includes. Each suite becomes one test of ctest, `<program>.<suite>`; the instances of a
# parameterized suite ("All/PlanTest") belong to the suite.
#
#   cmake -DPROGRAM=path -DNAME=name -DSKIPS=regex -DOUT=file -DFOLDER=folder "-DPROPERTIES=name;value;..." -P ...
# A program that was linked a moment ago can still count as open for writing ("Text file busy").
foreach(attempt RANGE 50)
  execute_process(
    COMMAND ${PROGRAM} --gtest_list_tests
    WORKING_DIRECTORY ${FOLDER}
    OUTPUT_VARIABLE listed
    RESULT_VARIABLE result)
  if(NOT result STREQUAL "Text file busy")
    break()
  endif()
  execute_process(COMMAND ${CMAKE_COMMAND} -E sleep 0.2)
endforeach()
if(NOT result STREQUAL "0")
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests: ${result}")
endif()
string(REGEX MATCHALL "(^|\n)[A-Za-z0-9_/]+\\." suites "${listed}")
list(TRANSFORM suites REPLACE "^\n|\\.$" "")
list(TRANSFORM suites REPLACE "^.*/" "" REGEX "^[A-Za-z0-9_]+/[A-Za-z_]")  # not TypedTest/0
list(TRANSFORM suites REPLACE "/[0-9]+$" "")
list(REMOVE_DUPLICATES suites)
if(SKIPS)
  list(FILTER suites EXCLUDE REGEX "${SKIPS}")
endif()
if(suites STREQUAL "")
  message(FATAL_ERROR "${PROGRAM} lists no test that \"${SKIPS}\" leaves")
endif()

set(text "")
foreach(suite IN LISTS suites)
  set(filter "${suite}.*:*/${suite}.*:${suite}/*:*/${suite}/*")
  string(APPEND text "add_test([=[${NAME}.${suite}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${filter}]=])\n")
  string(APPEND text "set_tests_properties([=[${NAME}.${suite}]=] PROPERTIES WORKING_DIRECTORY [=[${FOLDER}]=]")
  foreach(word IN LISTS PROPERTIES)
    string(APPEND text " [=[${word}]=]")
  endforeach()
  string(APPEND text ")\n")
endforeach()
file(WRITE ${OUT} "${text}")
