# `cmake --install --component python`: installs the Python package below CMAKE_INSTALL_PREFIX, with
# the library inside. The variable THINWIRE_PYTHON of the environment names the interpreter it is
# for; the default is the system's. c_api/CMakeLists.txt sets `library` and `package`.
set(python /usr/bin/python3)
if(NOT "$ENV{THINWIRE_PYTHON}" STREQUAL "")
  set(python $ENV{THINWIRE_PYTHON})
endif()

# Debian's python3 has a directory of its own for the prefix /usr. For any other prefix the package
# goes to the same place below it as below the prefix to which this interpreter installs by default.
set(ask "
import os, site, sys, sysconfig
prefix = sys.argv[1]
if prefix == '/usr' and 'deb_system' in sysconfig.get_scheme_names():
    place = sysconfig.get_path('purelib', 'deb_system', vars={'base': prefix})
else:
    below = os.path.relpath(sysconfig.get_path('purelib'), sysconfig.get_path('data'))
    place = os.path.join(prefix, below)
print(place, place in site.getsitepackages(), sep=';')
")
execute_process(COMMAND ${python} -I -c "${ask}" ${CMAKE_INSTALL_PREFIX}
                OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
list(GET answer 0 place)
list(GET answer 1 known)

file(INSTALL DESTINATION ${place} TYPE DIRECTORY FILES ${package} PATTERN __pycache__ EXCLUDE)
file(INSTALL DESTINATION ${place}/thinwire TYPE PROGRAM FILES ${library}
     RENAME libthinwire_c.so)
if(known)
  message(STATUS "${python} finds the package there: ${python} -m thinwire")
else()
  message(STATUS "${python} does not look there by itself; set PYTHONPATH=${place}")
endif()
