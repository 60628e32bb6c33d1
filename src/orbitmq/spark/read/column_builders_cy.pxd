# The fields of the builders, and the calls that happen for every value: they stand here so that the compiler inlines
# them in `batch_builder_cy`.

cimport cython

from orbitmq.protocol.buffers.bounded cimport (
    Span,
    Writer,
    is_ascii,
    is_there,
    left_of,
    put_native_i32,
    put_native_i64,
    put_span,
    replaced_text_of,
    span_of,
    written,
)


@cython.final
cdef class BufferBuilder:
    cdef bytearray _memory
    cdef Writer out
    cdef bint _failed

    cdef void grow(self, Py_ssize_t more) noexcept

    cdef inline void put(self, Span data) noexcept:
        if data.size > left_of(&self.out):
            self.grow(data.size)
        put_span(&self.out, data)

    cdef inline void put_int(self, int value) noexcept:
        if left_of(&self.out) < 4:
            self.grow(4)
        put_native_i32(&self.out, value)

    cdef inline void put_long(self, long long value) noexcept:
        if left_of(&self.out) < 8:
            self.grow(8)
        put_native_i64(&self.out, value)

    cdef inline Py_ssize_t size_bytes(self) noexcept:
        return written(&self.out)


@cython.final
cdef class ColumnBuilder:
    cdef object _kind
    cdef int _width  # bytes of a value; 0 for texts
    cdef readonly Py_ssize_t rows
    cdef Py_ssize_t _null_count
    cdef BufferBuilder _data
    cdef BufferBuilder _offsets  # of texts: where each ends in `_data`
    cdef BufferBuilder _nulls  # numbers of the rows that are null

    cdef inline Py_ssize_t size_bytes(self) noexcept:
        """Memory of the values, without what marks nulls."""
        return self._data.size_bytes() + (4 * self.rows if self._width == 0 else 0)

    cdef inline void add_int(self, int value) noexcept:
        self._data.put_int(value)
        self.rows += 1

    cdef inline void add_long(self, long long value) noexcept:
        self._data.put_long(value)
        self.rows += 1

    cdef inline void add_time(self, long long time_ms) noexcept:
        """Adds a time as microseconds; null where 64 bits cannot hold them."""
        if -9223372036854775 <= time_ms <= 9223372036854775:
            self.add_long(time_ms * 1000)
        else:
            self.note_null()
            self.add_long(0)

    cdef inline void add_bytes(self, Span data) noexcept:
        self._data.put(data)
        self._offsets.put_int(<int> self._data.size_bytes())
        self.rows += 1

    cdef inline int add_text(self, Span text) except -1:
        """Adds text that has to be UTF-8, with U+FFFD where it is not."""
        if is_ascii(text):
            self.add_bytes(text)
        else:
            self.add_object(replaced_text_of(text).encode())
        return 0

    cdef inline int add_text_or_null(self, Span text) except -1:
        if not is_there(text):
            self.note_null()
        return self.add_text(text)

    cdef inline void add_object(self, bytes text) noexcept:
        self.add_bytes(span_of(text))

    cdef inline void note_null(self) noexcept:
        """Makes the row null that is added next."""
        self._nulls.put_long(self.rows)
        self._null_count += 1
