# One target per folder. A target sees the headers of its own folder and of the targets it links,
# and no others: each folder has an include root of its own ("room") in the build directory, which
# holds links to its headers under their path in the tree. So `#include "transport/x.h"` compiles
# only in a target that links thinwire_transport.

# Makes the room of the folder PATH below ROOT, in which its headers are included as PREFIX/x.h, and
# adds it to TARGET. HEADERS limits it to some files.
function(thinwire_room target scope root path)
  cmake_parse_arguments(arg "" "PREFIX" "HEADERS" ${ARGN})
  set(prefix ${path})
  if(arg_PREFIX)
    set(prefix ${arg_PREFIX})
  endif()
  set(room ${PROJECT_BINARY_DIR}/rooms/${target})
  file(REMOVE_RECURSE ${room})
  file(MAKE_DIRECTORY ${room}/${prefix})
  if(arg_HEADERS)
    list(TRANSFORM arg_HEADERS PREPEND ${root}/${path}/)
    set(headers ${arg_HEADERS})
  else()
    file(GLOB headers CONFIGURE_DEPENDS ${root}/${path}/*.h ${root}/${path}/*.inc)
  endif()
  foreach(header IN LISTS headers)
    cmake_path(GET header FILENAME name)
    file(CREATE_LINK ${header} ${room}/${prefix}/${name} SYMBOLIC)
  endforeach()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${room}>)
endfunction()

# Public headers that the lower layers may use; see ARCHITECTURE.md.
function(thinwire_api target)
  add_library(${target} INTERFACE)
  thinwire_room(${target} INTERFACE ${PROJECT_SOURCE_DIR}/include thinwire HEADERS ${ARGN})
endfunction()

# thinwire_folder(NAME PATH USES targets... LINKS libraries...): the sources of PATH (without tests)
# as the target thinwire_NAME. USES are folders whose headers it may include.
function(thinwire_folder name path)
  cmake_parse_arguments(arg "" "TYPE" "USES;LINKS;EXCLUDE" ${ARGN})
  set(target thinwire_${name})
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${path}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "_test\\.cpp$")
  foreach(pattern IN LISTS arg_EXCLUDE)
    list(FILTER sources EXCLUDE REGEX "${pattern}")
  endforeach()
  if(NOT arg_TYPE)
    set(arg_TYPE OBJECT)
  endif()
  if(sources)
    add_library(${target} ${arg_TYPE} ${sources})
    set(scope PUBLIC)
    set_property(GLOBAL APPEND PROPERTY THINWIRE_TARGETS ${target})  # tests/layers_test.sh
    target_link_libraries(${target} PRIVATE ${arg_LINKS} thinwire_warnings)
    target_compile_features(${target} PUBLIC cxx_std_20)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
  endif()
  string(REGEX MATCH "^src/" below_src "${path}")
  if(below_src)
    string(REGEX REPLACE "^src/" "" inside "${path}")
    thinwire_room(${target} ${scope} ${PROJECT_SOURCE_DIR}/src ${inside})
    set_property(GLOBAL APPEND PROPERTY THINWIRE_FOLDERS ${target})
  else()
    thinwire_room(${target} ${scope} ${PROJECT_SOURCE_DIR} ${path})
    if(arg_TYPE STREQUAL "STATIC")
      target_link_libraries(${target} PUBLIC $<LINK_ONLY:thinwire_static>)
    endif()
  endif()
  foreach(used IN LISTS arg_USES)
    get_target_property(type thinwire_${used} TYPE)
    if(type STREQUAL "STATIC_LIBRARY")
      target_link_libraries(${target} ${scope} thinwire_${used})
    else()  # only the headers: the objects are part of the library thinwire
      target_include_directories(${target} ${scope}
        $<BUILD_INTERFACE:$<TARGET_PROPERTY:thinwire_${used},INTERFACE_INCLUDE_DIRECTORIES>>)
    endif()
  endforeach()
endfunction()

# Compiles COUNT sources of a target at a time as one file: headers that cost more than the sources
# themselves are read less often. Names in anonymous namespaces of these sources must differ, so this
# is for folders with few files and heavy headers. THINWIRE_UNITY=OFF compiles each on its own.
option(THINWIRE_UNITY "Compile the trainer some sources at a time" ON)
function(thinwire_compile_together target count)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${THINWIRE_UNITY}
                        UNITY_BUILD_BATCH_SIZE ${count})
endfunction()
