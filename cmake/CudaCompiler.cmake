# Decides TRIACCEL_CUDA (AUTO, GPU, ON, OFF) and which chips to build for, then enables the language.
#   TRIACCEL_CUDA_ARCHS  empty: this machine's GPUs, or sm_90 alone where there is none (quick to build)
#                        all: sm_75 (T4) to sm_120, and PTX of the newest for what comes later
#                        or a list in CMake's own form, such as 80-real;90-real
# Comes after TorchWheel: compiler and torch must be of the same CUDA major version.

set(TRIACCEL_CUDA AUTO CACHE STRING "Build the CUDA back end: AUTO (where nvcc is found), GPU (where a GPU is, too), ON or OFF")
set(TRIACCEL_CUDA_ARCHS "" CACHE STRING "Chips to build for: empty, all, or a list as for CMAKE_CUDA_ARCHITECTURES")
set(TRIACCEL_NVCC "" CACHE FILEPATH "The CUDA compiler; empty: CUDACXX, PATH, /usr/local/cuda, the project's .venv")

# The first nvcc of torch's major version; `why_none` says what stands in the way when there is none.
function(_triaccel_find_nvcc result why_none)
  if(NOT TRIACCEL_TORCH_CUDA_MAJOR)
    set(${why_none} "torch at ${TRIACCEL_TORCH_DIR} is a build without CUDA" PARENT_SCOPE)
    return()
  endif()
  set(rejected "")
  find_program(on_path nvcc NO_CACHE)
  get_filename_component(site "${TRIACCEL_TORCH_DIR}" DIRECTORY)
  file(GLOB wheel "${site}/nvidia/cu*/bin/nvcc" "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/nvidia/cu*/bin/nvcc")
  foreach(candidate IN ITEMS "${TRIACCEL_NVCC}" "$ENV{CUDACXX}" "${on_path}" /usr/local/cuda/bin/nvcc ${wheel})
    if(candidate AND EXISTS "${candidate}")
      execute_process(COMMAND "${candidate}" --version OUTPUT_VARIABLE banner ERROR_QUIET)
      if(banner MATCHES "release ${TRIACCEL_TORCH_CUDA_MAJOR}\\.")
        set(${result} "${candidate}" PARENT_SCOPE)
        return()
      endif()
      list(APPEND rejected "${candidate}")
    endif()
  endforeach()
  set(${why_none} "no nvcc of CUDA ${TRIACCEL_TORCH_CUDA_MAJOR} (looked at: ${rejected}); tools/bootstrap fetches one" PARENT_SCOPE)
endfunction()

set(nvcc "")
set(no_gpu OFF)
if(TRIACCEL_CUDA STREQUAL "GPU" AND NOT EXISTS /dev/nvidia0)
  execute_process(COMMAND nvidia-smi -L OUTPUT_QUIET ERROR_QUIET RESULT_VARIABLE no_gpu)
endif()
if(no_gpu)
  set(why_none "this machine has no GPU; TRIACCEL_CUDA=ON builds it all the same")
elseif(TRIACCEL_CUDA MATCHES "^(AUTO|GPU)$" OR TRIACCEL_CUDA)
  _triaccel_find_nvcc(nvcc why_none)
  if(NOT nvcc AND NOT TRIACCEL_CUDA MATCHES "^(AUTO|GPU)$")
    message(FATAL_ERROR "TRIACCEL_CUDA=ON, but ${why_none}")
  endif()
else()
  set(why_none "switched off")
endif()

if(NOT nvcc)
  set(TRIACCEL_CUDA OFF)
  message(STATUS "no CUDA back end: ${why_none}")
  return()
endif()
set(TRIACCEL_CUDA ON)

if(TRIACCEL_CUDA_ARCHS STREQUAL "all")
  set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real 90-real 100-real 120-real 120-virtual)
elseif(TRIACCEL_CUDA_ARCHS)
  set(CMAKE_CUDA_ARCHITECTURES ${TRIACCEL_CUDA_ARCHS})
else()
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE no_gpu)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")
  if(no_gpu EQUAL 0 AND capabilities)
    list(REMOVE_DUPLICATES capabilities)
    list(TRANSFORM capabilities REPLACE "([0-9]+)\\.([0-9]+)" "\\1\\2-real")
    set(CMAKE_CUDA_ARCHITECTURES ${capabilities})
  else()
    set(CMAKE_CUDA_ARCHITECTURES 90-real)
  endif()
endif()

# The compiler from PyPI keeps its libraries in lib, and looks for them in lib64 when CMake tries it
# out. The build itself needs none of them: our targets name torch's runtime by its full path.
get_filename_component(nvcc_bin "${nvcc}" DIRECTORY)
get_filename_component(nvcc_root "${nvcc_bin}" DIRECTORY)
if(NOT EXISTS "${nvcc_root}/lib64")
  set(ENV{LIBRARY_PATH} "${nvcc_root}/lib:$ENV{LIBRARY_PATH}")
endif()
set(CMAKE_CUDA_COMPILER ${nvcc})
set(CMAKE_CUDA_RUNTIME_LIBRARY None)  # torch brings the runtime; a second, static one would be a copy
enable_language(CUDA)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
message(STATUS "CUDA back end for ${CMAKE_CUDA_ARCHITECTURES} with ${nvcc}")

# Headers for host code that talks to CUDA. Those of torch's libraries (cuBLAS, cuSPARSE) lie next to
# torch; a compiler from PyPI has only its own.
set(TRIACCEL_CUDA_INCLUDE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
get_filename_component(site "${TRIACCEL_TORCH_DIR}" DIRECTORY)
file(GLOB next_to_torch "${site}/nvidia/cu${TRIACCEL_TORCH_CUDA_MAJOR}/include")
list(APPEND TRIACCEL_CUDA_INCLUDE ${next_to_torch})
list(REMOVE_DUPLICATES TRIACCEL_CUDA_INCLUDE)
