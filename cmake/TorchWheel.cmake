# torch_wheel: the libtorch inside a Python wheel as one imported target. Also installed: a program
# that uses find_package(triaccel) goes through this file.
#
# find_package(Torch) of the CUDA wheel fails on a machine without a CUDA toolkit, even for a
# program that wants only the CPU, so the target is made here from the wheel's own folders.
# Looked for, in this order: TRIACCEL_TORCH_DIR, $TRIACCEL_TORCH, the torch an installed package was
# built with, the project's .venv, python3's torch. The first two may name the 'torch' folder, the
# folder that holds it or a Python environment.
#
#   torch_wheel                 headers, libtorch_cpu, libc10; after triaccel_torch_with_cuda() CUDA too
#   triaccel_openmp             the wheel's own OpenMP runtime: a second one would split the thread pool
#   triaccel_cudart             the CUDA runtime that torch loads (empty without CUDA)
#   TRIACCEL_TORCH_CUDA_MAJOR   13 for a wheel of CUDA 13; empty for a wheel without CUDA

function(_triaccel_find_torch result)
  file(GLOB local "${PROJECT_SOURCE_DIR}/.venv")
  foreach(candidate IN ITEMS "${TRIACCEL_TORCH_DIR}" "$ENV{TRIACCEL_TORCH}" "${_triaccel_built_with_torch}" ${local})
    if(NOT candidate)
      continue()
    endif()
    file(GLOB dirs "${candidate}" "${candidate}/torch" "${candidate}/lib/python3*/site-packages/torch")
    foreach(dir IN LISTS dirs)
      if(EXISTS "${dir}/include/ATen/core/Tensor.h")
        set(${result} "${dir}" PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
  execute_process(
    COMMAND python3 -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE dir OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS "${dir}/include/ATen/core/Tensor.h")
    set(${result} "${dir}" PARENT_SCOPE)
    return()
  endif()
  message(FATAL_ERROR
    "No libtorch found. Run tools/bootstrap, or point TRIACCEL_TORCH at the 'torch' folder of an installed torch 2.11 wheel.")
endfunction()

_triaccel_find_torch(_found)
set(TRIACCEL_TORCH_DIR "${_found}" CACHE PATH "The 'torch' folder of the wheel to build against" FORCE)
file(READ "${TRIACCEL_TORCH_DIR}/version.py" _version)
string(REGEX MATCH "__version__ = '([^']*)'" _ "${_version}")
set(TRIACCEL_TORCH_VERSION "${CMAKE_MATCH_1}")
set(TRIACCEL_TORCH_CUDA_MAJOR "")
if(_version MATCHES "cuda[^\n]* = '([0-9]+)" AND EXISTS "${TRIACCEL_TORCH_DIR}/lib/libtorch_cuda.so")
  set(TRIACCEL_TORCH_CUDA_MAJOR "${CMAKE_MATCH_1}")
endif()
if(NOT TRIACCEL_TORCH_VERSION MATCHES "^2\\.1[1-5]\\.")
  message(WARNING "Tri-Accel is tested with torch 2.11 to 2.15, this is ${TRIACCEL_TORCH_VERSION}")
endif()

if(NOT TARGET torch_wheel)
  message(STATUS "libtorch ${TRIACCEL_TORCH_VERSION} at ${TRIACCEL_TORCH_DIR}")
  add_library(torch_wheel INTERFACE IMPORTED GLOBAL)
  target_include_directories(torch_wheel SYSTEM INTERFACE
    "${TRIACCEL_TORCH_DIR}/include" "${TRIACCEL_TORCH_DIR}/include/torch/csrc/api/include")
  set(_lib "${TRIACCEL_TORCH_DIR}/lib")
  target_link_libraries(torch_wheel INTERFACE "${_lib}/libtorch_cpu.so" "${_lib}/libc10.so")

  add_library(triaccel_openmp INTERFACE IMPORTED GLOBAL)
  file(GLOB _openmp "${_lib}/libgomp*.so*" "${TRIACCEL_TORCH_DIR}/../torch.libs/libgomp*.so*")
  if(_openmp)
    list(GET _openmp 0 _openmp)
    target_link_libraries(triaccel_openmp INTERFACE "${_openmp}")
  else()
    find_package(OpenMP REQUIRED COMPONENTS CXX)
    target_link_libraries(triaccel_openmp INTERFACE ${OpenMP_CXX_LIBRARIES})
  endif()
  add_library(triaccel_cudart INTERFACE IMPORTED GLOBAL)
endif()

# Adds the CUDA half of the wheel to the targets above.
function(triaccel_torch_with_cuda)
  get_filename_component(site "${TRIACCEL_TORCH_DIR}" DIRECTORY)
  set(lib "${TRIACCEL_TORCH_DIR}/lib")
  find_library(TRIACCEL_CUDART NAMES libcudart.so.${TRIACCEL_TORCH_CUDA_MAJOR}
    PATHS "${site}/nvidia/cu${TRIACCEL_TORCH_CUDA_MAJOR}/lib" "${site}/nvidia/cuda_runtime/lib" "${lib}"
          /usr/local/cuda/lib64 NO_DEFAULT_PATH)
  if(NOT TRIACCEL_CUDART)
    message(FATAL_ERROR "libcudart.so.${TRIACCEL_TORCH_CUDA_MAJOR} is neither next to ${TRIACCEL_TORCH_DIR} nor in "
      "/usr/local/cuda; install nvidia-cuda-runtime next to torch, or configure with -DTRIACCEL_CUDA=OFF")
  endif()
  target_link_libraries(triaccel_cudart INTERFACE "${TRIACCEL_CUDART}")
  # The linker drops libtorch_cuda as unused: its kernels register themselves when it is loaded.
  target_link_libraries(torch_wheel INTERFACE
    "-Wl,--no-as-needed,${lib}/libtorch_cuda.so,--as-needed" "${lib}/libc10_cuda.so" triaccel_cudart)
endfunction()
