# Defines the Debian packages that scripts/package.sh makes with CPack. One holds everything that
# cmake/install.cmake installs by default, the other one the Python client.
set(MESHWRIGHT_PACKAGE_CONTACT "Meshwright contributors <contributors@meshwright.invalid>"
    CACHE STRING "The maintainer that the Debian package names")

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME meshwright)
set(CPACK_PACKAGE_CONTACT ${MESHWRIGHT_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "parallel plans that train a model fastest on a cluster")
set(CPACK_PACKAGE_DESCRIPTION
    "Meshwright finds the parallel plan that trains a model fastest on a cluster and fits its
memory: tensor, pipeline, data, context and expert parallelism, ZeRO, pipeline schedule,
micro-batch, recomputation and offload. The package has the command line and the server.")
# The unit file needs the prefix under which the programs will run, which is not where CPack puts
# them first.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package_times.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, python3")  # Kubernetes; jobs
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "python3-torch, python3-numpy")  # the workloads
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/packaging/debian/postinst ${PROJECT_SOURCE_DIR}/packaging/debian/prerm
    ${PROJECT_SOURCE_DIR}/packaging/debian/postrm ${PROJECT_SOURCE_DIR}/packaging/debian/conffiles)
include(CPack)

# CPack reads this instead of CPackConfig.cmake for the package of the Python client, which is the
# same on every machine and needs only Debian's gRPC and protobuf for Python.
configure_file(${PROJECT_SOURCE_DIR}/cmake/python_package.cmake.in
               ${PROJECT_BINARY_DIR}/CPackPythonConfig.cmake @ONLY)
