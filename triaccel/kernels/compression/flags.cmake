# Encoded bytes must be equal on every device: no product may be contracted with a sum.
file(GLOB_RECURSE exact_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cpp")
set_source_files_properties(${exact_sources} PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
if(TRIACCEL_CUDA)
  file(GLOB_RECURSE exact_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*.cu")
  set_source_files_properties(${exact_sources} PROPERTIES COMPILE_OPTIONS "-fmad=false")
endif()
