# `cmake --install` and find_package(thinwire).
include(CMakePackageConfigHelpers)

set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/thinwire)
install(TARGETS thinwire EXPORT thinwireTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/thinwire DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT thinwireTargets NAMESPACE thinwire:: DESTINATION ${config_dir})
configure_package_config_file(cmake/thinwireConfig.cmake.in
  ${CMAKE_CURRENT_BINARY_DIR}/thinwireConfig.cmake INSTALL_DESTINATION ${config_dir})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/thinwireConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/thinwireConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/thinwireConfigVersion.cmake DESTINATION ${config_dir})
