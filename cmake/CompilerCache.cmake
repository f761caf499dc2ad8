# Uses ccache where it is installed: a second clone on the machine then builds in a minute or two.
#   TRIACCEL_CCACHE  path of ccache, or OFF
find_program(TRIACCEL_CCACHE ccache)
if(TRIACCEL_CCACHE)
  # Paths count from the source folder, so that clones share. Torch's precompiled headers are known by what they were made
  # from (see triaccel_torch_precompiled): their bytes differ from build to build.
  set(launcher "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}" CCACHE_NOHASHDIR=true CCACHE_PCH_EXTSUM=true
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${TRIACCEL_CCACHE}")
  foreach(language IN ITEMS CXX CUDA)
    if(NOT CMAKE_${language}_COMPILER_LAUNCHER)
      set(CMAKE_${language}_COMPILER_LAUNCHER "${launcher}")
    endif()
  endforeach()
endif()
