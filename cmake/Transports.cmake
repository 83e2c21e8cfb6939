# Decides which transports to build. THINWIRE_X is AUTO (build it if its library is found), ON (fail
# if it is not) or OFF. Sets
#   THINWIRE_TRANSPORTS_MISSING   words of src/transport/list.inc that are not built
#   THINWIRE_TRANSPORT_LIBRARIES  what the others link, and THINWIRE_word_LIBRARY for each
# and writes generated/transports_built.inc, the list reduced to what is built.

set(THINWIRE_TRANSPORTS_MISSING)
set(THINWIRE_TRANSPORT_LIBRARIES)

function(thinwire_transport_option word option found library package)
  set(${option} AUTO CACHE STRING "Build the ${word} transport: AUTO, ON or OFF")
  set_property(CACHE ${option} PROPERTY STRINGS AUTO ON OFF)
  if(${option} AND NOT ${found} AND NOT ${option} STREQUAL "AUTO")
    message(FATAL_ERROR "${option}=ON, but ${package} was not found. Run `make deps`.")
  endif()
  if((${option} OR ${option} STREQUAL "AUTO") AND ${found})
    message(STATUS "transport ${word}: yes")
    list(APPEND THINWIRE_TRANSPORT_LIBRARIES ${library})
    set(THINWIRE_TRANSPORT_LIBRARIES ${THINWIRE_TRANSPORT_LIBRARIES} PARENT_SCOPE)
    set(THINWIRE_${word}_LIBRARY ${library} PARENT_SCOPE)
  else()
    message(STATUS "transport ${word}: no (${option}=${${option}}, ${package} found: ${${found}})")
    set(THINWIRE_TRANSPORTS_MISSING ${THINWIRE_TRANSPORTS_MISSING} ${word} PARENT_SCOPE)
  endif()
endfunction()

find_package(Gloo QUIET)
thinwire_transport_option(gloo THINWIRE_GLOO Gloo_FOUND gloo libgloo-dev)

find_package(MPI QUIET COMPONENTS CXX)
thinwire_transport_option(mpi THINWIRE_MPI MPI_CXX_FOUND MPI::MPI_CXX libopenmpi-dev)

find_package(PkgConfig QUIET)
if(PkgConfig_FOUND)
  pkg_check_modules(SIMGRID QUIET IMPORTED_TARGET simgrid)
endif()
thinwire_transport_option(sim THINWIRE_SIM SIMGRID_FOUND PkgConfig::SIMGRID libsimgrid-dev)

# thinwire_transport_list(FILE words...): writes src/transport/list.inc without these words to FILE.
function(thinwire_transport_list file)
  set(list ${PROJECT_SOURCE_DIR}/src/transport/list.inc)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${list})
  file(STRINGS ${list} lines REGEX "^TW_TRANSPORT")
  foreach(word IN LISTS ARGN)
    list(FILTER lines EXCLUDE REGEX "^TW_TRANSPORT\\(${word},")
  endforeach()
  list(JOIN lines "\n" built)
  file(CONFIGURE OUTPUT ${file} CONTENT "${built}\n")
endfunction()
thinwire_transport_list(${CMAKE_CURRENT_BINARY_DIR}/generated/transports_built.inc
                        ${THINWIRE_TRANSPORTS_MISSING})
