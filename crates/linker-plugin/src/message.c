/* The callback `message` of the plugin interface, which takes arguments as printf does. */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

int linker_plugin_take_message(int level, const char *text);

int linker_plugin_message(int level, const char *format, ...) {
  char *text = NULL;
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&text, format, arguments);
  va_end(arguments);
  if (length < 0)
    return linker_plugin_take_message(level, format);
  int status = linker_plugin_take_message(level, text);
  free(text);
  return status;
}
