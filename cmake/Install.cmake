# cmake --install: headers, one static library per module, the command line, and a package for
# find_package(triaccel), which offers triaccel::triaccel (everything) and triaccel::<module>.
include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/triaccel")

get_property(modules GLOBAL PROPERTY TRIACCEL_MODULES)
install(TARGETS ${modules} triaccel_triaccel EXPORT triaccelTargets ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT triaccelTargets NAMESPACE triaccel:: DESTINATION "${package_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/triaccel" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
if(TARGET triaccel_cli)
  # The installed program finds libtorch where the build found it, also in a .venv of this tree, whose
  # folders INSTALL_RPATH_USE_LINK_PATH would leave out.
  set(program_rpath "${TRIACCEL_TORCH_DIR}/lib")
  if(TRIACCEL_CUDA)
    get_filename_component(cudart_dir "${TRIACCEL_CUDART}" DIRECTORY)
    list(APPEND program_rpath "${cudart_dir}")
  endif()
  set_target_properties(triaccel_cli PROPERTIES INSTALL_RPATH "${program_rpath}")
  install(TARGETS triaccel_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/triaccelConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/triaccelConfig.cmake" INSTALL_DESTINATION "${package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/triaccelConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/triaccelConfig.cmake" "${PROJECT_BINARY_DIR}/triaccelConfigVersion.cmake"
  "${PROJECT_SOURCE_DIR}/cmake/TorchWheel.cmake" DESTINATION "${package_dir}")
