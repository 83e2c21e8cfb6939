# `cmake --install`, find_package(thinwire) and pkg-config.
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/thinwire)
install(TARGETS thinwire EXPORT thinwireTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
# The header of the C API is installed with its library (c_api/CMakeLists.txt).
install(DIRECTORY include/thinwire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
        PATTERN thinwire_c.h EXCLUDE)
install(EXPORT thinwireTargets NAMESPACE thinwire:: DESTINATION ${config_dir})
configure_package_config_file(cmake/thinwireConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/thinwireConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/thinwireConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/thinwireConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/thinwireConfigVersion.cmake DESTINATION ${config_dir})

# thinwire.pc. A shared library has linked what it needs. A static one leaves that to its users, so
# its requirements are public: `pkg-config --libs thinwire` suffices for both.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH pc_prefix /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
set(requires fmt libhwy libcrypto)
set(libs)
if(NOT "gloo" IN_LIST THINWIRE_TRANSPORTS_MISSING)
  list(APPEND libs -lgloo)  # Gloo and some MPIs have no pkg-config file
endif()
if(NOT "mpi" IN_LIST THINWIRE_TRANSPORTS_MISSING)
  list(APPEND libs ${MPI_CXX_LIBRARIES})
endif()
if(NOT "sim" IN_LIST THINWIRE_TRANSPORTS_MISSING)
  list(APPEND requires simgrid)
endif()
set(scope)
if(BUILD_SHARED_LIBS)
  set(scope _private)
endif()
list(JOIN requires " " pc_requires${scope})
list(JOIN libs " " pc_libs${scope})
configure_file(cmake/thinwire.pc.in thinwire.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/thinwire.pc DESTINATION ${pkgconfig_dir})
