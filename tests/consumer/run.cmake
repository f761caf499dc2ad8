# cmake -DBUILD=… -DSOURCE=… -DWORK=… -P run.cmake: installs BUILD into WORK/prefix, builds the
# project SOURCE against it in WORK/build and runs it.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
run(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${WORK}/prefix")
run(${CMAKE_COMMAND} -G Ninja -S "${SOURCE}" -B "${WORK}/build"
  -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=${WORK}/prefix" "-DCMAKE_CXX_COMPILER=${COMPILER}")
run(${CMAKE_COMMAND} --build "${WORK}/build")
run("${WORK}/build/consumer")
message(STATUS "${output}")
if(EXISTS "${WORK}/prefix/bin/triaccel")
  run("${WORK}/prefix/bin/triaccel" version)
  message(STATUS "${output}")
endif()
file(REMOVE_RECURSE "${WORK}")
