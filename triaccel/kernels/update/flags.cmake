# 8-bit optimizer state must be equal on every device: no product may be contracted with a sum.
set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/state_codec_cpu.cpp" "${CMAKE_CURRENT_LIST_DIR}/quantized_update_cpu.cpp" PROPERTIES COMPILE_OPTIONS "-ffp-contract=off")
if(TRIACCEL_CUDA)
  set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/quantized_update.cu" PROPERTIES COMPILE_OPTIONS "-fmad=false")
endif()
