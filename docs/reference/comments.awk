# Shows our comments to Doxygen, which reads only marked ones: a comment above a declaration documents it, and all others until the next
# empty line; one behind a declaration documents that; one at a file's head the file.

function as_text(comment) {
  gsub(/</, "\\&lt;", comment)
  gsub(/#/, "\\#", comment)
  return comment
}

# A paragraph: comments, each with declarations below it. As a group, they share the comment; a type has it for itself. The _async
# form of a call has words of its own where it has no comment.
function put_paragraph(   i, depth, begin, commented, name, is_open, groups) {
  if (comment_lines > 0 && comment_lines == line_count && class) {
    # What is said of all that follows belongs to the class, under the heading of its part.
    print "/// @class " class
    print "  /// @class " class
    if (heading != "") print "  /// @par " heading
    heading = ""
  }
  groups = braces == 0 && !is_type
  begin = depth = commented = is_open = 0
  for (i = 1; i <= line_count; ++i) {
    if (depth == 0 && lines[i] ~ /^ *\/\/\/ /) { commented = 1; continue }
    if (!begin) begin = i
    if (!commented && depth == 0 && match(lines[i], /^ *(QPMESH_API )?(Request|int) [a-z_]+_async\(/)) {
      name = substr(lines[i], RSTART, RLENGTH)
      sub(/^ *(QPMESH_API )?(Request|int) /, "", name)
      sub(/_async\($/, "", name)
      own_words[begin] = "/// Starts what " name "() does, and returns at once. Its request is done when " name \
        "() would have returned; what that reads and writes belongs to the request until then."
    }
    depth += depth_of(lines[i])
    if (depth == 0 && lines[i] ~ /[;}] *(\/\/\/<.*)?$/) begin = commented = 0
  }
  depth = 0
  for (i = 1; i <= line_count; ++i) {
    if (groups && is_open && depth == 0 && lines[i] ~ /^ *\/\/\/ /) { print "///@}"; is_open = 0 }
    if (i in own_words) print own_words[i]
    print lines[i]
    if (depth == 0 && lines[i] ~ /^ *\/\/\/ /) {
      if (groups && lines[i + 1] !~ /^ *\/\/\/ /) { print "///@{"; is_open = 1 }
      continue
    }
    depth += depth_of(lines[i])
  }
  if (is_open) print "///@}"
  delete own_words
  line_count = comment_lines = braces = is_type = 0
}
function depth_of(line) {
  sub(/ \/\/.*/, "", line)
  return gsub(/[{(]/, "", line) - gsub(/[})]/, "", line)
}

/^#pragma once/ { put_paragraph(); in_body = 1; print; next }
!in_body {
  if (NR == 1) print "/// @file"
  print "///" as_text(substr($0, 3))
  next
}
/^ *$|^ (public|private|protected):$/ { put_paragraph(); print; next }
{
  line = $0
  if (line ~ /^ *\/\/ ----/) {
    heading = line
    gsub(/^ *\/\/ ---- | ----$/, "", heading)
    line = ""
  }
  else if (line ~ /^ *\/\/ /) {
    sub(/\/\/ /, "/// ", line)
    line = as_text(line)
    if (comment_lines == line_count) ++comment_lines
  } else {
    if (line ~ /^ *(typedef )?(enum|struct|class) /) is_type = 1
    if (line ~ /^};/) class = ""
    if (match(line, /^(class|struct) ([a-zA-Z_]+\]* )*[A-Z][A-Za-z]*( final)?( : .*)? \{/)) {
      class = line
      sub(/( final)?( : .*)? \{.*/, "", class)
      sub(/.* /, "", class)
      class = "qpmesh::" class
    }
    bare = line
    sub(/ \/\/ .*/, "", bare)
    braces += gsub(/[{(]/, "", bare) - gsub(/[})]/, "", bare)
    if (line !~ /NOLINT|IWYU|}  \/\/ namespace/ && match(line, / \/\/ /))
      line = substr(line, 1, RSTART) "///< " as_text(substr(line, RSTART + 4))
  }
  lines[++line_count] = line
}
END { put_paragraph() }
