//! The task of a connection: it writes what was encoded, and reads what the server sends.

use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt, ReadHalf, WriteHalf};

use super::super::resp::{NoProtocol, Scan, decode};
use super::{KEPT, Outputs, Pipeline};
use crate::config::network::Stream;
use crate::connection::trouble::{CLOSED, NO_PROTOCOL};

/// Size of the read buffer.
const READ: usize = 16 * 1024;

/// Consecutive reads of available data before the task yields.
const READS: usize = 16;

/// How long to read the server's last bytes after a failed write.
const LAST_WORDS: Duration = Duration::from_millis(10);

/// Answers all outstanding requests when the connection's task ends, also when it is aborted.
pub(super) struct Finish(pub(super) Pipeline);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.finish(CLOSED.into());
    }
}

pub(super) async fn drive(finish: Finish, stream: Box<dyn Stream>, told: Outputs) {
    let (reader, writer) = tokio::io::split(stream);
    let mut reading = std::pin::pin!(read(&finish.0, reader, &told));
    let why = tokio::select! {
        // The write branch first: it is short, while reading may continue for a long time.
        biased;
        why = write(&finish.0, writer, &told) => match tokio::time::timeout(LAST_WORDS, reading).await {
            Ok(last_words) => last_words,
            Err(_) => why,
        },
        why = &mut reading => why,
    };
    finish.0.finish(why);
}

/// Reads until the connection ends; returns the reason.
async fn read(pipeline: &Pipeline, mut reader: ReadHalf<Box<dyn Stream>>, told: &Outputs) -> String {
    let mut buffer = BytesMut::with_capacity(READ);
    let (mut frames, mut answered, mut scan) = (Vec::new(), Vec::new(), None::<Scan>);
    for reads in 1_usize.. {
        if buffer.capacity() - buffer.len() < READ / 8 {
            buffer.reserve(READ);
        }
        match reader.read_buf(&mut buffer).await {
            Ok(0) => return CLOSED.into(),
            Ok(_) => {}
            Err(error) => return format!("{error:?}"),
        }
        let is_whole = scan.as_mut().is_none_or(|scan| scan.is_whole(&buffer));
        let mut broken = None;
        if is_whole {
            while let Some(decoded) = decode(&mut buffer, pipeline.is_resp2()).transpose() {
                match decoded {
                    Ok(frame) => frames.push(frame),
                    Err(NoProtocol) => {
                        broken = Some(NO_PROTOCOL.to_owned());
                        break;
                    }
                }
            }
        }
        let (is_reading, now) = (!buffer.is_empty(), told.clock.now());
        pipeline.0.is_reading.store(is_reading, Ordering::Relaxed);
        if frames.is_empty() {
            told.silence.heard_in_part(now);
        } else {
            told.silence.heard(now);
        }
        if is_whole {
            scan = is_reading.then(Scan::new);
        }
        if let Some(why) = pipeline.received(&mut frames, &mut answered, &told.messages).err().or(broken) {
            return why;
        }
        if !is_reading && buffer.capacity() > KEPT {
            buffer = BytesMut::with_capacity(READ);
        }
        if reads.is_multiple_of(READS) {
            tokio::task::yield_now().await;
        }
    }
    CLOSED.into()
}

/// Writes until the connection ends; returns the reason.
async fn write(pipeline: &Pipeline, mut writer: WriteHalf<Box<dyn Stream>>, told: &Outputs) -> String {
    let shared = &pipeline.0;
    loop {
        let Some(mut bytes) = pipeline.outgoing() else {
            shared.more.notified().await;
            continue;
        };
        let mut had_to_wait = false;
        while bytes.has_remaining() {
            match writer.write_buf(&mut bytes).await {
                Ok(0) => return CLOSED.into(),
                Ok(count) => {
                    shared.written.fetch_add(count as u64, Ordering::Relaxed);
                    shared.is_writing.store(bytes.has_remaining(), Ordering::Relaxed);
                    if had_to_wait {
                        // The server still accepts data.
                        told.silence.heard_in_part(told.clock.now());
                    }
                    had_to_wait = true;
                }
                Err(error) => {
                    if !told.is_socket {
                        // A layer in between may have sent a part.
                        shared.written.fetch_add(bytes.remaining() as u64, Ordering::Relaxed);
                    }
                    return format!("{error:?}");
                }
            }
        }
        if let Err(error) = writer.flush().await {
            return format!("{error:?}");
        }
    }
}
