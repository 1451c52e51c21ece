# Builds the pages of the dashboard (web/) with Node, and sets MESHWRIGHT_WEB_FILES to the packed
# files that server/http compiles into the programs. Without Node the list is empty: the programs then
# serve only the API.
#
# MESHWRIGHT_WEB: AUTO builds the pages if there is npm, ON demands it, OFF leaves them out. npm
# downloads the packages of web/package-lock.json once, into web/node_modules.
set(MESHWRIGHT_WEB AUTO CACHE STRING "Build the dashboard's pages: AUTO (if there is npm), ON or OFF")
set_property(CACHE MESHWRIGHT_WEB PROPERTY STRINGS AUTO ON OFF)
set(MESHWRIGHT_WEB_FILES "")
set(MESHWRIGHT_HAS_WEB OFF CACHE INTERNAL "The programs of this build have the pages")

if(MESHWRIGHT_WEB STREQUAL "OFF")
  return()
endif()
find_program(MESHWRIGHT_NODE node)
find_program(MESHWRIGHT_NPM npm)
set(node_version 0)
if(MESHWRIGHT_NODE)
  execute_process(COMMAND ${MESHWRIGHT_NODE} --version OUTPUT_VARIABLE node_version
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  string(REPLACE "v" "" node_version "${node_version}")
endif()
if(NOT MESHWRIGHT_NPM OR node_version VERSION_LESS 18.20)
  if(MESHWRIGHT_WEB STREQUAL "ON")
    message(FATAL_ERROR "MESHWRIGHT_WEB is ON, and there is no npm with Node 18.20 or newer "
                        "(scripts/setup.sh installs them)")
  endif()
  message(STATUS "No npm with Node 18.20 or newer: the dashboard's pages are left out")
  return()
endif()

set(web ${PROJECT_SOURCE_DIR}/web)
# The packages lie beside their list, where every build of this tree finds them.
set(installed ${web}/node_modules/.package-lock.json)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${web}/package-lock.json)
if(${web}/package-lock.json IS_NEWER_THAN ${installed})
  message(STATUS "npm ci (web)")
  execute_process(COMMAND ${MESHWRIGHT_NPM} ci --no-audit --no-fund --ignore-scripts --loglevel=error
                  WORKING_DIRECTORY ${web} RESULT_VARIABLE failed)
  if(failed AND MESHWRIGHT_WEB STREQUAL "ON")
    message(FATAL_ERROR "MESHWRIGHT_WEB is ON, and npm cannot install the packages of web/")
  elseif(failed)
    message(WARNING "npm cannot install the packages of web/: the dashboard's pages are left out")
    set(MESHWRIGHT_WEB_FILES "")
    return()
  endif()
  file(TOUCH ${installed})
endif()

set(MESHWRIGHT_HAS_WEB ON CACHE INTERNAL "The programs of this build have the pages")
set(packed ${PROJECT_BINARY_DIR}/web)
include(${web}/sources.cmake)
list(TRANSFORM MESHWRIGHT_WEB_SOURCES PREPEND ${web}/)
foreach(name index.html report.html favicon.svg index.js index.css engine.js)
  list(APPEND MESHWRIGHT_WEB_FILES ${packed}/${name}.gz)
endforeach()
file(GLOB schema CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/proto/meshwright/v1/*.proto)

add_custom_command(
  OUTPUT ${MESHWRIGHT_WEB_FILES}
  COMMAND ${CMAKE_COMMAND} -E env MESHWRIGHT_WEB_OUT=${packed}/pages ${MESHWRIGHT_NPM} run --silent
          build
  COMMAND ${MESHWRIGHT_NODE} ${web}/tools/pack.mjs ${packed}/pages ${packed}
  DEPENDS ${installed} ${MESHWRIGHT_WEB_SOURCES} ${schema}
  WORKING_DIRECTORY ${web}
  COMMENT "The pages of the dashboard (web)"
  VERBATIM)
