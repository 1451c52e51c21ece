# Defines what `cmake --install BUILD --prefix X` puts into X. The installed programs find each
# other and share/meshwright relative to their own location, so that any prefix works and nothing of
# the build is needed.
include(GNUInstallDirs)
set(MESHWRIGHT_SHARE ${CMAKE_INSTALL_DATADIR}/meshwright)

# The host of vendors' libraries is next to the programs that start it.
install(TARGETS meshwright meshwrightd meshwright-costmodel-host
        RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# Files for vendors: the C ABI, the contract as protobuf, and templates to start with. The programs
# contain the chip files and framework profiles themselves; these copies are for people to read and
# start from.
install(FILES vendor_models/abi/meshwright_costmodel.h
        DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/meshwright)
install(DIRECTORY proto/meshwright DESTINATION ${MESHWRIGHT_SHARE}/proto
        FILES_MATCHING PATTERN "*.proto")
install(
  DIRECTORY vendor_models/templates/c vendor_models/templates/cpp vendor_models/templates/python
  DESTINATION ${MESHWRIGHT_SHARE}/templates
  USE_SOURCE_PERMISSIONS
  PATTERN ".gitignore" EXCLUDE
  PATTERN "generated" EXCLUDE
  PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY vendor_models/chips DESTINATION ${MESHWRIGHT_SHARE} FILES_MATCHING
        PATTERN "*.json")
install(DIRECTORY estimator/frameworks DESTINATION ${MESHWRIGHT_SHARE} FILES_MATCHING
        PATTERN "*.json")

# Jobs run the workloads from here. They include the microbenchmark of a chip.
install(
  DIRECTORY workloads
  DESTINATION ${MESHWRIGHT_SHARE}
  USE_SOURCE_PERMISSIONS FILES_MATCHING
  PATTERN "*.py"
  PATTERN "*.json"
  PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY examples DESTINATION ${MESHWRIGHT_SHARE})

install(FILES packaging/debian/copyright DESTINATION ${CMAKE_INSTALL_DOCDIR})

# The pages lie as in the source, so that the links from one to another hold.
install(FILES LICENSE README.md README.zh.md CHANGELOG.md CONTRIBUTING.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES vendor_models/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/vendor_models)
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Licenses of what the programs contain: libraries that are headers or archives, and the packages of
# the pages. Shared libraries bring theirs.
foreach(package libabsl-dev libboost1.74-dev libcli11-dev libeigen3-dev libfmt-dev libspdlog-dev
                nlohmann-json3-dev)
  if(EXISTS /usr/share/doc/${package}/copyright)
    install(FILES /usr/share/doc/${package}/copyright
            DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${package})
  else()
    list(APPEND without_license ${package})
  endif()
endforeach()
if(without_license)
  list(JOIN without_license ", " without_license)
  message(WARNING "This machine has no license texts of ${without_license}: `cmake --install` leaves them out. "
                  "Add them before you pass the programs on.")
endif()
if(MESHWRIGHT_HAS_WEB)
  foreach(file echarts/LICENSE echarts/NOTICE echarts/licenses/LICENSE-d3 preact/LICENSE
               tslib/LICENSE.txt zrender/LICENSE)
    string(REPLACE "/" "-" name ${file})
    install(FILES ${PROJECT_SOURCE_DIR}/web/node_modules/${file}
            DESTINATION ${CMAKE_INSTALL_DOCDIR}/licenses RENAME ${name})
  endforeach()
endif()

# The Python client is a package of its own: `cmake --install BUILD --component python`.
if(TARGET python_client)
  install(DIRECTORY ${MESHWRIGHT_PYTHON_DIR}/meshwright
          DESTINATION lib/python3/dist-packages COMPONENT python EXCLUDE_FROM_ALL
          PATTERN "__pycache__" EXCLUDE)
  install(FILES packaging/debian/copyright
          DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/python3-meshwright COMPONENT python EXCLUDE_FROM_ALL)
endif()

# The unit names the server and its configuration by their whole paths, so that it is made for the
# prefix of the installation. The configuration of /usr is in /etc.
install(FILES packaging/meshwrightd.toml DESTINATION ${MESHWRIGHT_SHARE})
install(
  CODE "
  set(CMAKE_INSTALL_FULL_BINDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}\")
  set(CMAKE_INSTALL_FULL_DOCDIR \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DOCDIR}\")
  set(configuration \"\${CMAKE_INSTALL_PREFIX}/etc/meshwright\")
  if(CMAKE_INSTALL_PREFIX STREQUAL \"/usr\")
    set(configuration /etc/meshwright)
  endif()
  set(MESHWRIGHT_CONFIGURATION \"\${configuration}/meshwrightd.toml\")
  configure_file(\"${PROJECT_SOURCE_DIR}/packaging/meshwrightd.service.in\"
                 \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/lib/systemd/system/meshwrightd.service\" @ONLY)
  # One that is there was changed by somebody.
  if(NOT EXISTS \"\$ENV{DESTDIR}\${MESHWRIGHT_CONFIGURATION}\")
    file(INSTALL \"${PROJECT_SOURCE_DIR}/packaging/meshwrightd.toml\" DESTINATION \"\${configuration}\")
  endif()
  ")

# Man pages and completions, if this tree has them or the build makes them.
foreach(root ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
  install(DIRECTORY ${root}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} OPTIONAL)
endforeach()
