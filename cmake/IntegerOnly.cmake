# triaccel_int8: which instructions each kernel may use, and the proof that none of it computes with
# floats.
file(GLOB_RECURSE int8_core CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/triaccel/int8/*.cpp")
list(FILTER int8_core EXCLUDE REGEX "/int8/cuda/")
list(FILTER int8_core EXCLUDE REGEX "/product_(avx|vnni|neon|sdot|smmla)[a-z0-9_]*\\.cpp$")
set(int8_folder "${PROJECT_SOURCE_DIR}/triaccel/int8/products")

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set_source_files_properties("${int8_folder}/product_avx2.cpp" PROPERTIES COMPILE_OPTIONS "-mavx2")
  set_source_files_properties("${int8_folder}/product_avx_vnni.cpp" PROPERTIES COMPILE_OPTIONS "-mavx2;-mavxvnni")
  set_source_files_properties("${int8_folder}/product_vnni.cpp" PROPERTIES COMPILE_OPTIONS "-mavx512f;-mavx512bw;-mavx512vl;-mavx512vnni")
  set(no_vector_registers -mgeneral-regs-only -mno-sse -mno-80387)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  # Left to itself GCC moves all loads of a tile to its front and runs out of registers.
  set(in_order "$<$<CXX_COMPILER_ID:GNU>:-fno-schedule-insns>")
  set_source_files_properties("${int8_folder}/product_neon.cpp" PROPERTIES COMPILE_OPTIONS "${in_order}")
  set_source_files_properties("${int8_folder}/product_sdot.cpp" PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod;${in_order}")
  set_source_files_properties("${int8_folder}/product_smmla.cpp" PROPERTIES COMPILE_OPTIONS "-march=armv8.2-a+dotprod+i8mm;${in_order}")
  set(no_vector_registers -mgeneral-regs-only)
endif()
if(TRIACCEL_SANITIZE)
  target_compile_definitions(triaccel_int8 PRIVATE TRIACCEL_INT8_SHADOW)
  target_compile_options(triaccel_int8 PRIVATE -O1)
else()
  target_compile_options(triaccel_int8 PRIVATE $<$<CONFIG:Release>:-O3>)  # loops written for the vectoriser
endif()

# The core once more, where any float is a compile error: as for a device without an FPU. Only GCC
# takes the standard library's headers along.
if(no_vector_registers AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND NOT TRIACCEL_SANITIZE)
  add_library(triaccel_int8_without_floats OBJECT ${int8_core})
  target_compile_features(triaccel_int8_without_floats PRIVATE cxx_std_20)
  target_include_directories(triaccel_int8_without_floats PRIVATE "${PROJECT_SOURCE_DIR}")
  set_target_properties(triaccel_int8_without_floats PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  target_compile_options(triaccel_int8_without_floats PRIVATE -O1 -g0 ${no_vector_registers})
endif()
