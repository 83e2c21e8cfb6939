# Writes page_files.h, which holds the files of the report page as text, to
# ${CMAKE_CURRENT_BINARY_DIR}/page_files. It is written again when one of the files changes.

# Sets a variable to the text of some files.
function(read_page_files variable folder)
  set(text "")
  foreach(name IN LISTS ARGN)
    file(READ ${folder}/${name} content)
    string(APPEND text "${content}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${name})
  endforeach()
  set(${variable} "${text}" PARENT_SCOPE)
endfunction()

set(page_folder ${CMAKE_CURRENT_LIST_DIR})
set(chart_folder ${PROJECT_SOURCE_DIR}/third_party/uplot)
read_page_files(PAGE_TEMPLATE ${page_folder} template.html)
read_page_files(PAGE_STYLE ${page_folder} page.css)
# One script in several files. The order matters.
read_page_files(PAGE_SCRIPT ${page_folder} axis.js tip.js labels.js lines.js bars.js page.js)
read_page_files(CHART_STYLE ${chart_folder} uPlot.min.css)
read_page_files(CHART_SCRIPT ${chart_folder} uPlot.iife.min.js)
read_page_files(CHART_LICENSE ${chart_folder} LICENSE)
configure_file(${page_folder}/page_files.h.in page_files/page_files.h @ONLY)
