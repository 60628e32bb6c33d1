# The requests of a read, frame by frame, and who sent them: for the fast paths where they are compiled.

from orbitmq.protocol.buffers.bounded cimport Span, no_span, span_of, text_of
from orbitmq.protocol.remoting.send_header cimport SendHeader, scan_frame


cdef struct Frames:
    Span read
    Py_ssize_t end  # of the frames that were handled
    Py_ssize_t size  # of the frame that is looked at now
    SendHeader header  # of that frame
    Span body
    Py_ssize_t handled
    int version  # of the sender of the first frame that was handled
    Span language


cdef inline void begin_frames(Frames *frames, bytes data) noexcept:
    """Goes to the start of a read, which has to outlive `frames`."""
    frames.read = span_of(data)
    frames.end = frames.size = frames.handled = 0
    frames.version = 0
    frames.language = no_span()


cdef inline bint next_frame(Frames *frames) noexcept:
    """Reads the frame behind those that were handled; False where it is not whole, not of a plain form, or an answer."""
    frames.size = scan_frame(frames.read, frames.end, &frames.header, &frames.body)
    return frames.size > 0 and not frames.header.flag & 1


cdef inline bint is_oneway(const Frames *frames) noexcept:
    return (frames.header.flag & 2) != 0


cdef inline void note_handled(Frames *frames) noexcept:
    """Steps over the frame that was read last."""
    if not frames.handled:
        frames.version = frames.header.version
        frames.language = frames.header.language.span
    frames.handled += 1
    frames.end += frames.size


cdef inline str language_of(const Frames *frames):
    return text_of(frames.language)
