# One static library per module of the architecture, so that a test links what its module may know and
# nothing more. tools/check_layers.py checks the includes; the links below repeat the same order.

option(TRIACCEL_SHARED "Shared libraries instead: a pack of the test programs takes a sixth of the room (tools/pack_gpu)" OFF)
set(triaccel_library_type STATIC)
if(TRIACCEL_SHARED)
  set(triaccel_library_type SHARED)
endif()

add_library(triaccel_flags INTERFACE)
target_compile_features(triaccel_flags INTERFACE cxx_std_20)
target_compile_options(triaccel_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Wshadow,-Werror --Werror=all-warnings --expt-relaxed-constexpr>)
if(TRIACCEL_SANITIZE)
  target_compile_options(triaccel_flags INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(triaccel_flags INTERFACE -fsanitize=address,undefined)
endif()

option(TRIACCEL_UNITY "Compile several sources at once: quicker from nothing, slower after a change" OFF)

# Libtorch's templates are instantiated again in every object, precompiled headers or not (2 s with ATen, 7 s with modules), so
# what is compiled together costs little more than one. Names in unnamed namespaces must differ within a target.
function(triaccel_unity target)
  if(TRIACCEL_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
  endif()
endfunction()

# triaccel_module(NAME [TORCH|NN] [UNITY] [DEPENDS module…] [LINKS library…] [SOURCES file…])
#   SOURCES default to every .cpp of triaccel/NAME and its folders. TORCH: the module sees libtorch's tensors; NN:
#   its modules too.
function(triaccel_module name)
  cmake_parse_arguments(arg "TORCH;NN;UNITY" "" "DEPENDS;LINKS;SOURCES" ${ARGN})
  if(NOT arg_SOURCES)
    file(GLOB_RECURSE arg_SOURCES CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/triaccel/${name}/*.cpp")
  endif()
  set(target triaccel_${name})
  if(arg_SOURCES)
    add_library(${target} ${triaccel_library_type} ${arg_SOURCES})
    set(visibility PUBLIC)
    target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:triaccel_flags>)
    if(arg_UNITY)
      triaccel_unity(${target})
    endif()
    if(arg_NN)
      triaccel_torch_precompiled(${target} NN)
    elseif(arg_TORCH)
      triaccel_torch_precompiled(${target} ATen)
    endif()
  else()
    add_library(${target} INTERFACE)
    set(visibility INTERFACE)
  endif()
  target_compile_features(${target} ${visibility} cxx_std_20)
  target_include_directories(${target} ${visibility}
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM arg_DEPENDS PREPEND triaccel_)
  target_link_libraries(${target} ${visibility} ${arg_DEPENDS} ${arg_LINKS})
  if(arg_TORCH OR arg_NN)
    target_link_libraries(${target} ${visibility} torch_wheel)
  endif()
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} DEFINE_SYMBOL "")  # shared or static, the objects are the same
  set_property(GLOBAL APPEND PROPERTY TRIACCEL_MODULES ${target})
endfunction()

# Torch's headers are slow to read (<torch/nn.h> 20 s, <ATen/ATen.h> 8 s), so each target shares one
# of two precompiled copies. Loading a copy is not free either (5 s and 1.5 s): a source that
# includes nothing of torch, directly or through a header of the tests, goes without.
#   triaccel_torch_precompiled(target ATen|NN)
function(triaccel_torch_precompiled target which)
  if(which STREQUAL "NN")  # modules and trainer call libtorch's kernels and have no hot loop of their own
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
    if(TRIACCEL_UNITY AND NOT BUILD_TESTING)  # two objects need them: a copy would take longer than it saves
      return()
    endif()
  endif()
  set(headers triaccel_precompiled_${which})
  if(NOT TARGET ${headers})
    file(WRITE "${PROJECT_BINARY_DIR}/${headers}.cpp" "// carries the precompiled headers\n")
    add_library(${headers} OBJECT "${PROJECT_BINARY_DIR}/${headers}.cpp")
    target_link_libraries(${headers} PRIVATE triaccel_flags torch_wheel)
    if(which STREQUAL "NN")
      target_precompile_headers(${headers} PRIVATE <torch/torch.h>)
      target_compile_options(${headers} PRIVATE $<$<CONFIG:Release>:-O1>)
    else()
      target_precompile_headers(${headers} PRIVATE <ATen/ATen.h>)
    endif()
    if(TRIACCEL_CCACHE)
      file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${headers}.dir/cmake_pch.hxx.gch.sum"
        "${which} of torch ${TRIACCEL_TORCH_VERSION}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\n")
    endif()
  endif()
  if(TRIACCEL_CCACHE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fpch-preprocess>)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${headers})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "EXECUTABLE")  # would get -fPIE, and the headers are compiled with -fPIC
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE -fPIC)
  endif()
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    file(STRINGS "${source}" torch_includes REGEX "#include (<(torch|ATen)/|\"tests/)" LIMIT_COUNT 1)
    if(NOT torch_includes)
      set_source_files_properties("${source}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
    endif()
  endforeach()
endfunction()
